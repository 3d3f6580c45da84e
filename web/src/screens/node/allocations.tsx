import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { type Column, Rows } from "../../components/system/cursor-table";
import { Section } from "../../components/system/section";
import { Empty } from "../../components/system/states";
import { Status } from "../../components/system/status";
import { Time } from "../../components/system/time";
import type { Part } from "../../query/model";

type Allocation = Schemas["Allocation"];

// Allocations are those of all tenants on the node.
export function Allocations({ part }: { part: Part<Schemas["AllocationList"]> }) {
  const t = useTranslations("node");
  const columns = useMemo(
    (): Column<Allocation>[] => [
      { id: "name", header: t("allocation"), cell: ({ id, name }) => <Link to="/admin/allocations/$id" params={{ id }}>{name}</Link> },
      { id: "status", header: t("status"), cell: ({ status }) => <Status status={status} /> },
      { id: "gpus", header: t("gpus"), cell: ({ gpus }) => gpus, number: true },
      { id: "requested", header: t("requested"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "expires", header: t("expires"), cell: ({ expires_at }) => (expires_at === undefined ? t("noExpiry") : <Time at={expires_at} />) },
    ],
    [t],
  );
  return (
    <Section title={t("allocations")} query={part} isEmpty={({ items }) => items.length === 0} empty={<Empty text={t("noAllocations")} />}>
      {({ items }) => <Rows label={t("allocations")} columns={columns} rows={items} rowKey={({ id }) => id} />}
    </Section>
  );
}
