import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Reasoned } from "../../components/system/reasoned";
import { keys } from "../../query/keys";
import { useSession } from "../../session/session";

type Props = { plan: Schemas["PlanDetail"] };

const changed = [keys.changes, keys.ops];

// Decide approves or rejects a proposed change. Both send the hash of what the screen shows. A plan of the control loop
// has no decision.
export function Decide({ plan }: Props) {
  const t = useTranslations("change");
  const { may } = useSession();
  if (plan.status !== "proposed" || plan.change === undefined || !(may("approvePlan") || may("rejectPlan"))) return null;
  return (
    <section className="panel stack">
      <h2>{t("decide")}</h2>
      <p>{t("decideNote")}</p>
      <div className="row">
        {may("approvePlan") && <Approve plan={plan} />}
        {may("rejectPlan") && <Reject plan={plan} />}
      </div>
    </section>
  );
}

function Approve({ plan: { id, hash } }: Props) {
  const t = useTranslations("change");
  return (
    <Reasoned
      action={t("approve")}
      name={t("name")}
      text={t("approveText")}
      done={t("approvedText")}
      least={0}
      most={256}
      input={() => ({ hash })}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/plans/{id}/approve", { params: { path: { id }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={changed}
    />
  );
}

function Reject({ plan: { id, hash } }: Props) {
  const t = useTranslations("change");
  return (
    <Reasoned
      action={t("reject")}
      name={t("name")}
      text={t("rejectText")}
      done={t("rejectedText")}
      least={3}
      most={256}
      input={() => ({ hash })}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/plans/{id}/reject", { params: { path: { id }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={changed}
    />
  );
}
