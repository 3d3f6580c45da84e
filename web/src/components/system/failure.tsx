import { Anchor, Button } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslations } from "use-intl";
import { ApiError, errorPage, unreachable } from "../../api/error";
import { SectionError } from "../../query/model";
import { needsSignIn, needsStepUp, signInPath } from "../../session/signin";
import { Copy } from "./copy";
import { Degraded, Empty, RateLimited, Restricted } from "./states";

type Props = { error: unknown; retry?: () => void };

const asApiError = (error: unknown) => (error instanceof ApiError ? error : unreachable());

// byStatus are the errors with a form of their own.
const byStatus: Record<number, (error: ApiError, props: Props) => ReactNode> = {
  403: (error) => (needsStepUp(error) ? <Problem error={error} /> : <Restricted message={error.message} field={error.field || undefined} role={error.suggestion || undefined} />),
  429: (error, { retry }) => <RateLimited seconds={error.retryAfter || 5} retry={retry ?? (() => {})} />,
};

export function Failure(props: Props) {
  if (props.error instanceof SectionError) return <NoData error={props.error} retry={props.retry} />;
  const error = asApiError(props.error);
  return byStatus[error.status]?.(error, props) ?? <Problem error={error} retry={props.retry} />;
}

// NoData shows why a section of a read model is missing. Its status ok means that there is nothing to show.
function NoData({ error: { status, message, runbook }, retry }: { error: SectionError; retry?: () => void }) {
  if (status === "restricted") return <Restricted message={message} />;
  if (status === "ok") return <Empty text={message} />;
  return <Degraded message={message} runbook={runbook} retry={retry} />;
}

// Problem shows what a user needs to go on, or to ask for help: sentence, next step, code and correlation id.
function Problem({ error, retry }: { error: ApiError; retry?: () => void }) {
  const t = useTranslations("states");
  const known: Record<string, string> = { unreachable: t("unreachable"), unreadable: t("unreadable") };
  return (
    <div className="failure" role="alert" data-state="error">
      <p>
        <strong>{error.message || known[error.code] || t("unreadable")}</strong>
      </p>
      {error.moved.length > 0 && (
        <>
          <p>{t("moved")}</p>
          <ul>
            {error.moved.map((each) => (
              <li key={each}>{each}</li>
            ))}
          </ul>
        </>
      )}
      {error.field !== "" && <p>{t("field", { field: error.field })}</p>}
      {error.suggestion !== "" && <p>{t("next", { step: error.suggestion })}</p>}
      {known[error.code] === undefined && (
        <p>
          <Anchor href={errorPage(error.code)}>{t("code", { code: error.code })}</Anchor>
        </p>
      )}
      {error.correlationId !== "" && (
        <p className="row">
          <span>{t("correlation", { id: error.correlationId })}</span>
          <Copy text={error.correlationId} label={t("copyId")} />
        </p>
      )}
      <div className="row">
        {retry !== undefined && (
          <Button variant="default" onClick={retry}>
            {t("retry")}
          </Button>
        )}
        {needsSignIn(error) && (
          <Button component="a" href={signInPath(needsStepUp(error))}>
            {t("signIn")}
          </Button>
        )}
      </div>
    </div>
  );
}
