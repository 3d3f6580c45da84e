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

// scopeOf reads the project of an allocation, without which the name of the object is not unique.
const scopeOf = async ({ kind, object_id: id }: Schemas["Drift"]) =>
  kind === "Allocation" ? (await unwrap(api.GET("/api/v1/admin/allocations/{id}", { params: { path: { id } } }))).project_id : undefined;

// Heal executes the desired state of the object again.
export function Heal({ entry }: Props) {
  const { kind, name } = entry;
  const t = useTranslations("drift");
  return (
    <Reasoned
      action={t("heal")}
      name={name}
      id={entry.id}
      text={t("healText", { kind, name })}
      done={t("healing", { name })}
      least={3}
      most={256}
      input={() => ({})}
      run={async ({ reason }, key) => {
        const query = { scope: await scopeOf(entry) };
        return unwrap(api.POST("/api/v1/admin/desired/{kind}/{name}/reconcile", { params: { path: { kind, name }, query, header: { "X-Idempotency-Key": key } }, body: { reason } }));
      }}
      invalidates={[keys.drift, keys.ops]}
    />
  );
}

// SuspendObject stops the control loop for the object, with all of its drift.
export function SuspendObject({ entry }: Props) {
  const { kind, name } = entry;
  const t = useTranslations("desired");
  return (
    <Suspend
      name={name}
      id={entry.id}
      text={t("suspendText", { name })}
      run={async (body, key) => {
        const query = { scope: await scopeOf(entry) };
        return unwrap(api.POST("/api/v1/admin/desired/{kind}/{name}/suspend", { params: { path: { kind, name }, query, header: { "X-Idempotency-Key": key } }, body }));
      }}
      invalidates={[keys.drift, keys.ops]}
    />
  );
}

// endOf returns the end that the server accepts, or undefined.
function endOf(local: string): string | undefined {
  const end = isoOf(local);
  const left = Date.parse(end ?? "") - serverNow();
  return left > 0 && left <= mostDays * day ? end : undefined;
}

// Ignore has an end, after which drift that still exists is open again.
export function Ignore({ entry: { id, name, field } }: Props) {
  const t = useTranslations("drift");
  return (
    <Reasoned
      action={t("ignore")}
      name={name}
      id={id}
      text={t("ignoreText", { field, name })}
      done={t("isIgnored", { name })}
      least={3}
      most={256}
      fields={() => ({ local: localOf(serverNow() + 7 * day) })}
      input={({ local }) => {
        const until = endOf(local);
        return until === undefined ? undefined : { until };
      }}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/drift/{id}/ignore", { params: { path: { id }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={[keys.drift, keys.ops]}
    >
      {({ local }, change) => (
        <When label={t("until")} note={t("untilNote")} value={local} change={(local) => change({ local })} error={local === "" || endOf(local) !== undefined ? undefined : t("untilWrong")} />
      )}
    </Reasoned>
  );
}
