import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../api/client";
import { Heading } from "../components/a11y/heading";
import { Command } from "../components/system/copy";
import { type Column, CursorTable } from "../components/system/cursor-table";
import { Filter } from "../components/system/filter";
import { FilterForm } from "../components/system/filter-form";
import { useListControls } from "../components/system/list-controls";
import { Empty } from "../components/system/states";
import { Time } from "../components/system/time";
import { useWords } from "../components/system/words";
import { type EvidenceFilter, keys } from "../query/keys";
import { unreported } from "../stream/unreported";

type Bundle = Schemas["EvidenceBundle"];

const kinds: Bundle["kind"][] = ["allocation", "revision", "plan", "key_rotation"];
const statuses: Bundle["status"][] = ["pending", "signed", "failed"];

// The server checks what the address has.
const queryOf = ({ kind, status, about }: EvidenceFilter) => ({ kind: kind as Bundle["kind"] | undefined, status: status as Bundle["status"] | undefined, about });

// Evidence lists the bundles of the own tenant, and for roles of the platform all of them.
export function Evidence() {
  const t = useTranslations("evidence");
  const { columns: _, ...filter } = useSearch({ from: "/evidence" });
  const navigate = useNavigate({ from: "/evidence" });
  const [columns, controls] = useListControls("evidence", useColumns());
  const set = (change: EvidenceFilter) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <p>{t("intro")}</p>
      <FilterForm fields={[{ name: "about", label: t("aboutField"), most: 300 }]} filter={filter} set={set}>
        <Filter label={t("kind")} any={t("anyKind")} values={kinds} value={filter.kind ?? ""} change={(kind) => set({ kind })} />
        <Filter label={t("status")} any={t("anyStatus")} values={statuses} value={filter.status ?? ""} change={(status) => set({ status })} />
      </FilterForm>
      {controls}
      <CursorTable
        label={t("list")}
        queryKey={keys.evidenceList(filter)}
        load={(cursor) => unwrap(api.GET("/api/v1/evidence", { params: { query: { ...queryOf(filter), cursor, limit: 100 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        refetchInterval={unreported.evidence.every}
        empty={<Empty text={t("none")} />}
      />
      <Command text={commandOf(filter)} label={t("command")} />
      <Command text="gpuaas evidence create NAME" label={t("createCommand")} />
    </div>
  );
}

// commandOf quotes what the address of the page has.
const commandOf = (filter: EvidenceFilter) =>
  ["gpuaas evidence list", ...Object.entries(queryOf(filter)).flatMap(([flag, value]) => (value === undefined ? [] : [`--${flag} '${value.replaceAll("'", "")}'`]))].join(" ");

function useColumns(): Column<Bundle>[] {
  const t = useTranslations("evidence");
  const word = useWords();
  return useMemo(
    () => [
      { id: "about", header: t("about"), cell: ({ id, about }) => <Link to="/evidence/$id" params={{ id }}>{about}</Link> },
      { id: "kind", header: t("kind"), cell: ({ kind }) => word(kind) },
      { id: "status", header: t("status"), cell: ({ status, failure_message: why }) => (why === undefined ? word(status) : t("failedWith", { status: word(status), why })) },
      { id: "number", header: t("number"), cell: ({ number }) => number ?? "", number: true },
      { id: "by", header: t("requestedBy"), cell: ({ requested_by }) => requested_by },
      { id: "created", header: t("created"), cell: ({ created_at }) => <Time at={created_at} /> },
    ],
    [t, word],
  );
}
