import { Anchor } from "@mantine/core";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Heading } from "../../components/a11y/heading";
import { Command, Copy } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { FilterForm } from "../../components/system/filter-form";
import { useListControls } from "../../components/system/list-controls";
import { Empty } from "../../components/system/states";
import { isoOf } from "../../components/system/when";
import { useFormat } from "../../i18n/format";
import { type AuditFilter, keys } from "../../query/keys";
import { Changed } from "./audit/changed";

type Row = Schemas["AuditRecord"];

// A time that was altered by hand stays a text, which the server rejects.
const queryOf = ({ from, to, ...filter }: AuditFilter): AuditFilter => ({ ...filter, from: from && (isoOf(from) ?? from), to: to && (isoOf(to) ?? to) });

const given = (query: object) => Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined);

export function Audit() {
  const t = useTranslations("audit");
  const common = useTranslations("filter");
  const { columns: _, ...filter } = useSearch({ from: "/admin/audit" });
  const navigate = useNavigate({ from: "/admin/audit" });
  const [columns, controls] = useListControls("audit", useColumns());
  const set = (change: AuditFilter) => void navigate({ search: (old) => ({ ...old, ...change }), replace: true });
  return (
    <div className="stack">
      <Heading title={t("title")} />
      <FilterForm
        fields={[
          { name: "actor", label: t("actorField"), most: 200 },
          { name: "action", label: t("actionField"), most: 100 },
          { name: "target", label: t("targetField"), most: 300 },
          { name: "tenant", label: t("tenantId"), most: 36 },
          { name: "from", label: t("from"), type: "datetime-local" },
          { name: "to", label: t("to"), type: "datetime-local" },
        ]}
        filter={filter}
        set={set}
      />
      {controls}
      <Anchor href={`/api/v1/admin/audit-logs/export?${new URLSearchParams(given(queryOf(filter)))}`} download>
        {common("csv")}
      </Anchor>
      <CursorTable
        label={t("title")}
        queryKey={keys.auditList(filter)}
        load={(cursor) => unwrap(api.GET("/api/v1/admin/audit-logs", { params: { query: { ...queryOf(filter), cursor, limit: 100 } } }))}
        columns={columns}
        rowKey={({ id }) => id}
        empty={<Empty text={t("none")} />}
      />
      <Command text={commandOf(queryOf(filter))} label={t("command")} />
      <Verification />
    </div>
  );
}

// commandOf quotes what the address of the page has.
const commandOf = (filter: AuditFilter) => ["gpuaas audit list --all", ...given(filter).map(([flag, value]) => `--${flag} '${value.replaceAll("'", "")}'`)].join(" ");

function useColumns(): Column<Row>[] {
  const t = useTranslations("audit");
  const format = useFormat();
  return useMemo(
    () => [
      { id: "at", header: t("at"), cell: ({ occurred_at }) => format.dateTime(occurred_at) },
      { id: "actor", header: t("actor"), cell: ({ actor }) => actor },
      { id: "action", header: t("action"), cell: ({ action }) => action },
      { id: "target", header: t("target"), cell: ({ target }) => target },
      { id: "tenant", header: t("tenant"), cell: ({ tenant_id }) => tenant_id ?? t("noTenant") },
      { id: "changed", header: t("changed"), cell: ({ before, after }) => <Changed before={before} after={after} /> },
      { id: "client", header: t("client"), cell: ({ client_address, user_agent }) => [client_address, user_agent].filter(Boolean).join(" ") },
      { id: "correlation", header: t("correlation"), cell: ({ correlation_id: id }) => <>{id} {id !== "" && <Copy text={id} label={t("copyCorrelation")} />}</> },
    ],
    [t, format],
  );
}

// Verification names the commands, because the API offers none of it: a server cannot prove its own log.
function Verification() {
  const t = useTranslations("audit");
  return (
    <section className="panel stack">
      <h2>{t("verification")}</h2>
      <p>{t("verificationText")}</p>
      <Command text="gpuaas audit verify --heads heads.json" label={t("verifyAudit")} />
      <p>{t("verifyLedgerText")}</p>
      <Command text="gpuaas ledger verify --heads ledger.json" label={t("verifyLedger")} />
    </section>
  );
}
