import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import type { Column } from "../../components/system/cursor-table";
import { useWords } from "../../components/system/words";
import { useFormat } from "../../i18n/format";
import { useSession } from "../../session/session";
import { List } from "./list";
import { SlotActions } from "./slot";

type Gpu = Schemas["Gpu"];

const mib = 1024 ** 2;

// Gpus are the GPUs of the node with their slots.
export function Gpus({ node, gpus }: { node: string; gpus: Gpu[] }) {
  const t = useTranslations("node");
  const format = useFormat();
  const word = useWords();
  const texts = useTranslations("slots");
  const { may } = useSession();
  const acts = may("quarantineSlot") || may("clearSlot") || may("resetNodeGpu");
  const columns = useMemo(
    (): Column<Gpu>[] => [
      { id: "gpu", header: t("gpu"), cell: ({ index, model }) => t("gpuText", { index: format.number(index), model }) },
      { id: "memory", header: t("memory"), cell: ({ memory_mib }) => format.bytes(memory_mib * mib), number: true },
      { id: "health", header: t("gpuHealth"), cell: ({ health, present }) => (present ? word(health) : t("missing")) },
      { id: "reasons", header: t("gpuReasons"), cell: ({ reasons }) => reasons.join(", ") },
      { id: "slot", header: t("slot"), cell: ({ slot_status, slot_reason }) => [word(slot_status), slot_reason].filter(Boolean).join(": ") },
      { id: "allocation", header: t("allocation"), cell: ({ allocation_name: name, allocation_id: id }) => (id === undefined ? t("noAllocation") : <Link to="/admin/allocations/$id" params={{ id }}>{name ?? id}</Link>) },
      ...(acts ? [{ id: "change", header: texts("change"), cell: (gpu: Gpu) => <SlotActions node={node} gpu={gpu} /> }] : []),
    ],
    [t, texts, format, word, node, acts],
  );
  return <List title={t("gpus")} empty={t("noGpus")} columns={columns} rows={gpus} rowKey={({ uuid }) => uuid} />;
}
