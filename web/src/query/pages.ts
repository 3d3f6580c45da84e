import { type InfiniteData, type QueryKey, useInfiniteQuery } from "@tanstack/react-query";
import { type Interval, stale } from "./keys";
import { type SectionOf, SectionError } from "./model";

type Page<Row> = { items: Row[]; next_cursor?: string };

type Props<Model, Row> = {
  queryKey: QueryKey;
  load: (cursor: string | undefined) => Promise<Model>;
  list: (model: Model) => SectionOf<Page<Row>>;
  refetchInterval: Interval;
};

// usePages reads a read model with a paged list. The sections of the screen are those of the first page, and each later
// page adds rows.
export function usePages<Model, Row>({ queryKey, load, list, refetchInterval }: Props<Model, Row>) {
  const query = useInfiniteQuery<Model, Error, InfiniteData<Model>, QueryKey, string | undefined>({
    queryKey,
    queryFn: async ({ pageParam }) => {
      const model = await load(pageParam);
      const { data, status, message, runbook_id } = list(model);
      // A later page without rows is an error of this page, because the first one has the sections.
      if (pageParam !== undefined && data === undefined) throw new SectionError(status, message ?? "", runbook_id ?? "");
      return model;
    },
    initialPageParam: undefined,
    getNextPageParam: (model) => list(model).data?.next_cursor,
    staleTime: stale.list,
    refetchInterval,
  });
  const { data, error, failureReason, refetch } = query;
  const rows = (data?.pages ?? []).flatMap((model) => list(model).data?.items ?? []);
  return { model: { data: data?.pages[0], error, failureReason, refetch }, rows, query };
}
