import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { serverNow } from "../../api/clock";
import { Reasoned } from "../../components/system/reasoned";
import { Remove } from "../../components/system/remove";
import { When, isoOf, localOf } from "../../components/system/when";
import { keys } from "../../query/keys";
import { useSession } from "../../session/session";

type NodeProps = { node: Schemas["Node"] };
type Props = NodeProps & { allocations: Schemas["AllocationList"] | undefined };

const hour = 3_600_000;
const changed = [keys.fleet, keys.ops];
const most = 512;

// Maintenance takes the node out of service, and back.
export function Maintenance({ node, allocations }: Props) {
  const t = useTranslations("node");
  const { me, may } = useSession();
  const held = (node.holds ?? []).some(({ cause }) => cause === "operator");
  if (!(may("cordonNode") || may("drainNode") || may("uncordonNode"))) return null;
  return (
    <section className="panel stack">
      <h2>{t("maintenance")}</h2>
      <div className="row">
        {may("cordonNode") && <Cordon node={node} />}
        {may("drainNode") && <Drain node={node} allocations={allocations} />}
        {may("uncordonNode") && (held || node.cordoned) && <Uncordon node={node} />}
        {me.user?.role === "admin" && may("uncordonNode") && held && <Uncordon node={node} force />}
      </div>
    </section>
  );
}

// isLater accepts an empty field, too: without a time the server decides.
const isLater = (local: string) => local === "" || Date.parse(isoOf(local) ?? "") > serverNow();

function Cordon({ node: { name } }: NodeProps) {
  const t = useTranslations("node");
  return (
    <Reasoned
      action={t("cordon")}
      name={name}
      text={t("cordonText", { name })}
      done={t("isCordoned", { name })}
      least={1}
      most={most}
      fields={() => ({ until: "" })}
      input={({ until }) => (isLater(until) ? { until: isoOf(until) } : undefined)}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/nodes/{name}/cordon", { params: { path: { name }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={changed}
    >
      {({ until }, change) => <When label={t("until")} note={t("untilNote")} value={until} change={(until) => change({ until })} error={isLater(until) ? undefined : t("future")} />}
    </Reasoned>
  );
}

// Drain shows the allocations that the deadline ends, and asks for the name of the node.
function Drain({ node: { name }, allocations }: Props) {
  const t = useTranslations("node");
  return (
    <Reasoned
      action={t("drain")}
      name={name}
      text={t("drainText", { name })}
      done={t("isDraining", { name })}
      least={1}
      most={most}
      typed
      fields={() => ({ deadline: localOf(serverNow() + hour) })}
      input={({ deadline }) => (isLater(deadline) ? { deadline_at: isoOf(deadline) } : undefined)}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/nodes/{name}/drain", { params: { path: { name }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={changed}
    >
      {({ deadline }, change) => (
        <>
          <Touched allocations={allocations} />
          <When label={t("deadline")} note={t("deadlineNote")} value={deadline} change={(deadline) => change({ deadline })} error={isLater(deadline) ? undefined : t("future")} />
        </>
      )}
    </Reasoned>
  );
}

const ended = new Set<string>(["released", "failed"]);

function Touched({ allocations }: { allocations: Schemas["AllocationList"] | undefined }) {
  const t = useTranslations("node");
  if (allocations === undefined) return <p>{t("drainUnknown")}</p>;
  const live = allocations.items.filter(({ status }) => !ended.has(status));
  return (
    <>
      <p>{t("drainTouches", { count: live.length })}</p>
      <ul>
        {live.map(({ id, name }) => (
          <li key={id}>{name}</li>
        ))}
      </ul>
      {allocations.next_cursor !== undefined && <p>{t("drainMore")}</p>}
    </>
  );
}

// Uncordon with force also removes the holds of other operators, which the server allows to administrators.
function Uncordon({ node: { name }, force = false }: NodeProps & { force?: boolean }) {
  const t = useTranslations("node");
  const texts = useTranslations("service");
  return (
    <Remove
      action={force ? texts("force") : t("uncordon")}
      name={name}
      text={force ? texts("forceText", { name }) : t("uncordonText", { name })}
      done={force ? texts("isForced", { name }) : t("isUncordoned", { name })}
      typed={force}
      run={(key) => unwrap(api.POST("/api/v1/admin/nodes/{name}/uncordon", { params: { path: { name }, header: { "X-Idempotency-Key": key } }, body: force ? { force } : {} }))}
      invalidates={changed}
    />
  );
}
