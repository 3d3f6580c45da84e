import { Link, useSearch } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { type Column, CursorTable } from "../components/system/cursor-table";
import { useListControls } from "../components/system/list-controls";
import { Empty } from "../components/system/states";
import { Status } from "../components/system/status";
import { Time } from "../components/system/time";
import { useFormat } from "../i18n/format";
import { type AllocationFilter, keys, refetch } from "../query/keys";
import { useSession } from "../session/session";
import { hourly } from "./allocation/cost";
import { BulkRelease, Choose, SelectionContext, useSelection } from "./allocations/bulk";
import { Filters } from "./allocations/filters";

type Allocation = Schemas["Allocation"];
// A value of the address is a text, which the server checks.
type Query = { status?: Allocation["status"]; sort?: "name" };

export function Allocations() {
  const t = useTranslations("allocations");
  const { may } = useSession();
  const { columns: _, ...filter } = useSearch({ from: "/allocations" });
  const selecting = may("releaseAllocation");
  const [columns, controls] = useListControls("allocations", useColumns(selecting));
  // What another filter or project hides is not selected: a user would release what the screen does not show.
  const [rows, setRows] = useState<Allocation[]>([]);
  const selection = useSelection(rows);
  const filtered = Object.values(filter).some((value) => value !== undefined);
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <Filters key={filter.q} filter={filter} filtered={filtered} />
      {controls}
      <SelectionContext value={selection}>
        <CursorTable
          label={t("list")}
          queryKey={keys.allocationList(filter)}
          load={(cursor) => unwrap(api.GET("/api/v1/allocations", { params: { query: { ...(filter as Query), cursor, limit: 100 } } }))}
          columns={columns}
          rowKey={(each) => each.id}
          refetchInterval={refetch.live}
          onRows={setRows}
          empty={<Empty text={filtered ? t("noMatch") : t("none")}>{may("createAllocation") && <Link to="/launch">{t("launch")}</Link>}</Empty>}
        />
      </SelectionContext>
      {selecting && <BulkRelease chosen={selection.chosen} set={selection.set} />}
      <Command text={listCommand(filter)} label={t("command")} />
    </div>
  );
}

// The name has no flag: gpuaas alloc get shows one allocation.
const listCommand = ({ status, sku }: AllocationFilter) =>
  ["gpuaas alloc list", ...Object.entries({ status, sku }).flatMap(([flag, value]) => (value === undefined ? [] : [`--${flag} '${value.replaceAll("'", "")}'`]))].join(" ");

function useColumns(selecting: boolean): Column<Allocation>[] {
  const t = useTranslations("allocations");
  const format = useFormat();
  return useMemo(
    () => [
      ...(selecting ? [{ id: "select", header: t("selectColumn"), cell: (each: Allocation) => <Choose allocation={each} /> }] : []),
      { id: "name", header: t("name"), cell: ({ id, name }) => <Link to="/allocations/$id" params={{ id }}>{name}</Link> },
      { id: "status", header: t("status"), cell: ({ status }) => <Status status={status} /> },
      { id: "sku", header: t("sku"), cell: ({ sku }) => sku },
      { id: "gpus", header: t("gpus"), cell: ({ gpus }) => gpus, number: true },
      { id: "region", header: t("region"), cell: ({ region }) => region },
      { id: "rate", header: t("rate"), cell: (each) => format.money(hourly(each)), number: true },
      { id: "cost", header: t("cost"), cell: ({ cost }) => format.money(cost), number: true },
      { id: "created", header: t("created"), cell: ({ created_at }) => <Time at={created_at} /> },
      { id: "expires", header: t("expires"), cell: ({ expires_at }) => (expires_at === undefined ? t("never") : <Time at={expires_at} />) },
    ],
    [t, format, selecting],
  );
}
