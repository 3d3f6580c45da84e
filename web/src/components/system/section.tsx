import type { ReactNode } from "react";
import { ApiError } from "../../api/error";
import type { Part } from "../../query/model";
import { Failure } from "./failure";
import { Loading } from "./states";

type Props<T> = {
  title?: string;
  query: Part<T>;
  isEmpty?: (data: T) => boolean;
  empty?: ReactNode;
  children: (data: T) => ReactNode;
};

const isLimited = (error: unknown) => error instanceof ApiError && error.status === 429;

// Section shows one query or one section of a read model, and fails alone: the other sections of the screen stay.
export function Section<T>({ title, query, isEmpty, empty, children }: Props<T>) {
  return (
    <section className="panel">
      {title !== undefined && <h2>{title}</h2>}
      <Content query={query} isEmpty={isEmpty} empty={empty}>
        {children}
      </Content>
    </section>
  );
}

// Content is a Section without a frame.
export function Content<T>({ query, isEmpty, empty, children }: Omit<Props<T>, "title">) {
  // While a retry waits for the rate limit, failureReason has the error.
  const error = query.error ?? (isLimited(query.failureReason) ? query.failureReason : null);
  const failed = error !== null && <Failure error={error} retry={() => void query.refetch()} />;
  if (query.data === undefined) return failed || <Loading />;
  return (
    <>
      {failed}
      {isEmpty?.(query.data) ? empty : children(query.data)}
    </>
  );
}
