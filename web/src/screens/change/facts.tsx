import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { Copy } from "../../components/system/copy";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";

type Props = { plan: Schemas["PlanDetail"] };

export function Facts({ plan: { id, status, origin, source, commit, author, summary, created_at, applied_at, hash, ...plan } }: Props) {
  const t = useTranslations("change");
  const word = useWords();
  return (
    <section className="panel">
      <h2>{t("facts")}</h2>
      <dl className="facts">
        <dt>{t("state")}</dt>
        <dd>{word(status)}</dd>
        {origin !== undefined && (
          <>
            <dt>{t("origin")}</dt>
            <dd>{word(origin)}</dd>
          </>
        )}
        <dt>{t("commit")}</dt>
        <dd>
          {source} {commit || t("noCommit")}
        </dd>
        {author !== undefined && (
          <>
            <dt>{t("author")}</dt>
            <dd>{author}</dd>
          </>
        )}
        {summary !== undefined && (
          <>
            <dt>{t("summary")}</dt>
            <dd>{summary}</dd>
          </>
        )}
        <dt>{t("created")}</dt>
        <dd>
          <Time at={created_at} />
        </dd>
        <Decided plan={plan} />
        {applied_at !== undefined && (
          <>
            <dt>{t("applied")}</dt>
            <dd>
              <Time at={applied_at} />
            </dd>
          </>
        )}
        <dt>{t("hash")}</dt>
        <dd>
          {hash} <Copy text={hash} label={t("copyHash")} />
        </dd>
        <dt>{t("id")}</dt>
        <dd>
          {id} <Copy text={id} label={t("copyId")} />
        </dd>
      </dl>
    </section>
  );
}

// Decided is who has approved or rejected the plan, and why.
function Decided({ plan: { approvals = [], approvals_needed, decided_at, decided_by, decision } }: { plan: Pick<Schemas["PlanDetail"], "approvals" | "approvals_needed" | "decided_at" | "decided_by" | "decision"> }) {
  const t = useTranslations("change");
  return (
    <>
      {(approvals.length > 0 || approvals_needed !== undefined) && (
        <>
          <dt>{t("approvals")}</dt>
          <dd>
            {approvals_needed !== undefined && t("approvalsNeeded", { given: approvals.length, needed: approvals_needed })}
            {approvals.map(({ at, by, reason }) => (
              <p key={`${at} ${by}`}>
                <Time at={at} /> {t("approvalText", { by, reason })}
              </p>
            ))}
          </dd>
        </>
      )}
      {decided_at !== undefined && (
        <>
          <dt>{t("decided")}</dt>
          <dd>
            <Time at={decided_at} /> {decided_by}
          </dd>
        </>
      )}
      {decision !== undefined && decision !== "" && (
        <>
          <dt>{t("decision")}</dt>
          <dd>{decision}</dd>
        </>
      )}
    </>
  );
}
