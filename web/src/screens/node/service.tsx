import { NativeSelect } from "@mantine/core";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { serverNow } from "../../api/clock";
import { Reasoned } from "../../components/system/reasoned";
import { Remove } from "../../components/system/remove";
import { When, isoOf, localOf } from "../../components/system/when";
import { useWords } from "../../components/system/words";
import { keys } from "../../query/keys";
import { useSession } from "../../session/session";
import { isLater } from "../desired/suspend";
import { Retire, Revoke } from "./retire";

type Props = { node: Schemas["Node"] };

const week = 7 * 86_400_000;
const changed = [keys.fleet, keys.ops];
const reasonOf = { least: 1, most: 512 };

// Service are the rarer changes of a node. Those that end something are last.
export function Service({ node }: Props) {
  const t = useTranslations("service");
  const { may } = useSession();
  const actions = [
    may("probeNode") && <Probe key="probe" node={node} />,
    may("overrideNodeHealth") && <Override key="override" node={node} />,
    may("acceptNodeHardware") && node.reported_fingerprint !== undefined && node.reported_fingerprint !== node.fingerprint && <Accept key="accept" node={node} fingerprint={node.reported_fingerprint} />,
    may("announceNodeRetirement") && <Announce key="announce" node={node} />,
    may("revokeNode") && <Revoke key="revoke" node={node} />,
    may("retireNode") && <Retire key="retire" node={node} />,
  ].filter(Boolean);
  if (actions.length === 0) return null;
  return (
    <section className="panel stack">
      <h2>{t("title")}</h2>
      <div className="row">{actions}</div>
    </section>
  );
}

function Probe({ node: { name } }: Props) {
  const t = useTranslations("service");
  return (
    <Remove
      action={t("probe")}
      name={name}
      text={t("probeText", { name })}
      done={t("isProbed", { name })}
      typed={false}
      run={(key) => unwrap(api.POST("/api/v1/admin/nodes/{name}/probe", { params: { path: { name }, header: { "X-Idempotency-Key": key } }, body: {} }))}
      invalidates={changed}
    />
  );
}

type Level = Schemas["HealthOverride"]["level"];

const levels: Level[] = ["unhealthy", "degraded", "healthy", "unknown"];

function Override({ node: { name, gpus = [] } }: Props) {
  const t = useTranslations("service");
  const word = useWords();
  return (
    <Reasoned
      action={t("override")}
      name={name}
      text={t("overrideText", { name })}
      done={t("isOverridden", { name })}
      {...reasonOf}
      fields={() => ({ level: "unhealthy" as Level, target: "", until: "" })}
      input={({ level, target, until }) => (isLater(until) ? { level, target: target || undefined, until: isoOf(until) } : undefined)}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/nodes/{name}/health-override", { params: { path: { name }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={changed}
    >
      {({ level, target, until }, change) => (
        <>
          <NativeSelect label={t("level")} value={level} onChange={(event) => change({ level: event.currentTarget.value as Level })} data={levels.map((value) => ({ value, label: word(value) }))} />
          <NativeSelect
            label={t("target")}
            value={target}
            onChange={(event) => change({ target: event.currentTarget.value })}
            data={[{ value: "", label: t("whole") }, ...gpus.map(({ uuid, index }) => ({ value: uuid, label: t("gpu", { index }) }))]}
          />
          <When label={t("until")} note={t("untilNote")} value={until} change={(until) => change({ until })} error={isLater(until) ? undefined : t("future")} />
        </>
      )}
    </Reasoned>
  );
}

// Accept names the fingerprint on the screen. The server rejects it if the hardware has changed since then.
function Accept({ node: { name, changed: what = "" }, fingerprint }: Props & { fingerprint: string }) {
  const t = useTranslations("service");
  return (
    <Reasoned
      action={t("accept")}
      name={name}
      text={t("acceptText", { name, changed: what, fingerprint })}
      done={t("isAccepted", { name })}
      {...reasonOf}
      typed
      input={() => ({ fingerprint })}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/nodes/{name}/accept-hardware", { params: { path: { name }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={changed}
    />
  );
}

function Announce({ node: { name } }: Props) {
  const t = useTranslations("service");
  return (
    <Reasoned
      action={t("announce")}
      name={name}
      text={t("announceText", { name })}
      done={t("isAnnounced", { name })}
      {...reasonOf}
      fields={() => ({ time: localOf(serverNow() + week) })}
      input={({ time }) => {
        const retires_at = isoOf(time);
        return retires_at !== undefined && isLater(time) ? { retires_at } : undefined;
      }}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/nodes/{name}/retirement", { params: { path: { name }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={changed}
    >
      {({ time }, change) => (
        <When label={t("retires")} note={t("retiresNote")} value={time} change={(time) => change({ time })} error={isoOf(time) !== undefined && isLater(time) ? undefined : t("future")} />
      )}
    </Reasoned>
  );
}
