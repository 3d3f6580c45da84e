import { Anchor } from "@mantine/core";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { serverNow } from "../../api/clock";
import { Heading } from "../../components/a11y/heading";
import { Command } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { FilterForm } from "../../components/system/filter-form";
import { useListControls } from "../../components/system/list-controls";
import { Empty } from "../../components/system/states";
import { Status } from "../../components/system/status";
import { Time } from "../../components/system/time";
import { useFormat } from "../../i18n/format";
import { type AdminAllocationFilter, keys } from "../../query/keys";
import { unreported } from "../../stream/unreported";
import { Ages, States } from "./allocations/choices";

type Allocation = Schemas["Allocation"];
type Query = Omit<AdminAllocationFilter, "status" | "older" | "newer"> & { status?: Allocation["status"]; created_before?: string; created_since?: string };

const hour = 3_600_000;

// An age in hours becomes a time. An age that is no number stays a text, which the server rejects.
const timeOf = (hours: string | undefined) => (hours === undefined ? undefined : Number(hours) > 0 ? new Date(serverNow() - Number(hours) * hour).toISOString() : hours);

export const queryOf = ({ status, sku, node, tenant, older, newer }: AdminAllocationFilter): Query => ({
  status: status as Query["status"],
  sku,
  node,
  tenant,
  created_before: timeOf(older),
  created_since: timeOf(newer),
});

const given = (query: object) => Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);

export function AdminAllocations() {
  const t = useTranslations("adminAllocations");
  const common = useTranslations("filter");
  const { columns: _, ...filter } = useSearch({ from: "/admin/allocations" });
  const navigate = useNavigate({ from: "/admin/allocations" });
  const [columns, controls] = useListControls("admin-allocations", useColumns());
  const set = (change: AdminAllocationFilter) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  const filtered = given(filter).length > 0;
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <FilterForm
        fields={[
          { name: "node", label: t("node"), most: 63 },
          { name: "sku", label: t("sku"), most: 63 },
          { name: "tenant", label: t("tenantId"), most: 36 },
        ]}
        filter={filter}
        set={set}
      >
        <States value={filter.status} change={(status) => set({ status })} />
        <Ages label={t("older")} value={filter.older} change={(older) => set({ older })} />
        <Ages label={t("newer")} value={filter.newer} change={(newer) => set({ newer })} />
      </FilterForm>
      {controls}
      <Anchor href={`/api/v1/admin/allocations/csv?${new URLSearchParams(given(queryOf(filter)))}`} download>
        {common("csv")}
      </Anchor>
      <CursorTable
        label={t("title")}
        queryKey={keys.adminAllocationList(filter)}
        load={(cursor) => unwrap(api.GET("/api/v1/admin/allocations", { params: { query: { ...queryOf(filter), cursor, limit: 100 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        refetchInterval={unreported.tenants.every}
        empty={<Empty text={filtered ? t("noMatch") : t("none")} />}
      />
      <Command text={commandOf(filter)} label={t("command")} />
    </div>
  );
}

// commandOf quotes what the address of the page has.
const commandOf = ({ status, sku, node, tenant, older, newer }: AdminAllocationFilter) =>
  ["gpuaas admin alloc list", ...given({ status, sku, node, tenant, before: older && `${older}h`, since: newer && `${newer}h` }).map(([flag, value]) => `--${flag} '${value.replaceAll("'", "")}'`)].join(" ");

function useColumns(): Column<Allocation>[] {
  const t = useTranslations("adminAllocations");
  const format = useFormat();
  return useMemo(
    () => [
      { id: "name", header: t("name"), cell: ({ id, name }) => <Link to="/admin/allocations/$id" params={{ id }}>{name}</Link> },
      { id: "tenant", header: t("tenant"), cell: ({ tenant_id: tenant, tenant_name }) => <Link to="/admin/allocations" search={{ tenant }}>{tenant_name ?? tenant}</Link> },
      { id: "status", header: t("state"), cell: ({ status }) => <Status status={status} /> },
      { id: "since", header: t("inState"), cell: ({ status_at }) => <Time at={status_at} /> },
      { id: "node", header: t("node"), cell: ({ node_name: name }) => (name === undefined ? t("noNode") : <Link to="/fleet/$name" params={{ name }}>{name}</Link>) },
      { id: "sku", header: t("sku"), cell: ({ sku }) => sku },
      { id: "gpus", header: t("gpus"), cell: ({ gpus }) => gpus, number: true },
      { id: "region", header: t("region"), cell: ({ region }) => region },
      { id: "cost", header: t("cost"), cell: ({ cost }) => format.money(cost), number: true },
      { id: "requested", header: t("requested"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "expires", header: t("expires"), cell: ({ expires_at }) => (expires_at === undefined ? t("noExpiry") : <Time at={expires_at} />) },
    ],
    [t, format],
  );
}
