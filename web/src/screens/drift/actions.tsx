import { useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { serverNow } from "../../api/clock";
import { Reasoned } from "../../components/system/reasoned";
import { When, isoOf, localOf } from "../../components/system/when";
import { keys } from "../../query/keys";
import { Suspend } from "../desired/suspend";

type Props = { entry: Schemas["Drift"] };

const day = 86_400_000;
const mostDays = 90;

// Heal executes the desired state of the object again.
export function Heal({ entry: { kind, name } }: Props) {
  const t = useTranslations("drift");
  return (
    <Reasoned
      action={t("heal")}
      name={name}
      text={t("healText", { kind, name })}
      done={t("healing", { name })}
      least={3}
      most={256}
      input={{}}
      run={({ reason }, key) =>
        unwrap(api.POST("/api/v1/admin/desired/{kind}/{name}/reconcile", { params: { path: { kind, name }, header: { "X-Idempotency-Key": key } }, body: { reason } }))
      }
      invalidates={[keys.drift, keys.ops]}
    />
  );
}

// SuspendObject stops the control loop for the object, with all of its drift.
export function SuspendObject({ entry: { kind, name } }: Props) {
  const t = useTranslations("desired");
  return (
    <Suspend
      name={name}
      text={t("suspendText", { name })}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/desired/{kind}/{name}/suspend", { params: { path: { kind, name }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={[keys.drift, keys.ops]}
    />
  );
}

// Ignore has an end, after which drift that still exists is open again.
export function Ignore({ entry: { id, name, field } }: Props) {
  const t = useTranslations("drift");
  const [until, setUntil] = useState("");
  const end = isoOf(until);
  const left = Date.parse(end ?? "") - serverNow();
  const valid = left > 0 && left <= mostDays * day;
  return (
    <Reasoned
      action={t("ignore")}
      name={name}
      text={t("ignoreText", { field, name })}
      done={t("isIgnored", { name })}
      least={3}
      most={256}
      input={valid && end !== undefined ? { until: end } : undefined}
      onOpen={() => setUntil(localOf(serverNow() + 7 * day))}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/drift/{id}/ignore", { params: { path: { id }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={[keys.drift, keys.ops]}
    >
      <When label={t("until")} note={t("untilNote")} value={until} change={setUntil} error={until === "" || valid ? undefined : t("untilWrong")} />
    </Reasoned>
  );
}
