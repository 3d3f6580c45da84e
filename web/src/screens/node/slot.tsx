import { Checkbox } from "@mantine/core";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Reasoned } from "../../components/system/reasoned";
import { keys } from "../../query/keys";
import { useSession } from "../../session/session";

type Props = { node: string; gpu: Schemas["Gpu"] };

const changed = [keys.fleet, keys.ops];
const reasonOf = { least: 1, most: 512 };

// SlotActions take a slot out of sale and back, and reset its GPU while it is idle.
export function SlotActions({ node, gpu }: Props) {
  const { may } = useSession();
  const { slot_id: id, slot_status: status, index } = gpu;
  const isIdle = status === "quarantined" || status === "dirty";
  return (
    <div className="row">
      {id !== undefined && status !== "quarantined" && may("quarantineSlot") && <Quarantine id={id} index={index} />}
      {id !== undefined && status === "quarantined" && may("clearSlot") && <Clear id={id} index={index} />}
      {isIdle && gpu.allocation_id === undefined && may("resetNodeGpu") && <Reset node={node} gpu={gpu} />}
    </div>
  );
}

type SlotProps = { id: string; index: number };

function Quarantine({ id, index }: SlotProps) {
  const t = useTranslations("slots");
  const name = t("name", { index });
  return (
    <Reasoned
      action={t("quarantine")}
      name={name}
      text={t("quarantineText", { name })}
      done={t("isQuarantined", { name })}
      {...reasonOf}
      input={() => ({})}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/slots/{id}/quarantine", { params: { path: { id }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={changed}
    />
  );
}

// Clear needs a proof, or operators who state that they have inspected the GPU and the node.
function Clear({ id, index }: SlotProps) {
  const t = useTranslations("slots");
  const name = t("name", { index });
  return (
    <Reasoned
      action={t("clear")}
      name={name}
      text={t("clearText", { name })}
      done={t("isCleared", { name })}
      {...reasonOf}
      fields={() => ({ inspected: false })}
      input={({ inspected }) => (inspected ? { inspected } : {})}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/slots/{id}/clear", { params: { path: { id }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={changed}
    >
      {({ inspected }, change) => (
        <Checkbox label={t("inspected")} description={t("inspectedNote")} checked={inspected} onChange={(event) => change({ inspected: event.currentTarget.checked })} />
      )}
    </Reasoned>
  );
}

function Reset({ node, gpu: { uuid, index } }: Props) {
  const t = useTranslations("slots");
  const name = t("name", { index });
  return (
    <Reasoned
      action={t("reset")}
      name={name}
      text={t("resetText", { name })}
      done={t("isResetting", { name })}
      {...reasonOf}
      input={() => ({})}
      run={(body, key) => unwrap(api.POST("/api/v1/admin/nodes/{name}/gpus/{gpu}/reset", { params: { path: { name: node, gpu: uuid }, header: { "X-Idempotency-Key": key } }, body }))}
      invalidates={changed}
    />
  );
}
