import { Anchor } from "@mantine/core";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Command } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Section } from "../../components/system/section";
import { useFormat } from "../../i18n/format";
import { keys } from "../../query/keys";
import type { Part } from "../../query/model";
import { unreported } from "../../stream/unreported";

type Totals = Schemas["StatementTotals"];

// Statements link the pages that the server renders for printing.
export function Statements({ part }: { part: Part<Schemas["StatementList"]> }) {
  const t = useTranslations("billing");
  const format = useFormat();
  const columns = useMemo(
    (): Column<Totals>[] => [
      { id: "month", header: t("statementMonth"), cell: ({ month }) => month },
      { id: "opening", header: t("opening"), cell: (totals) => format.minor(totals.opening_minor, totals.currency), number: true },
      { id: "topups", header: t("topUps"), cell: (totals) => format.minor(totals.topups_minor, totals.currency), number: true },
      { id: "usage", header: t("used"), cell: (totals) => format.minor(totals.usage_minor, totals.currency), number: true },
      { id: "files", header: t("files"), cell: (totals) => format.minor(totals.storage_minor, totals.currency), number: true },
      { id: "closing", header: t("closing"), cell: (totals) => format.minor(totals.closing_minor, totals.currency), number: true },
      { id: "final", header: t("final"), cell: ({ final }) => (final ? t("yes") : t("no")) },
      { id: "print", header: t("print"), cell: ({ month }) => <Anchor href={`/api/v1/billing/statements/${encodeURIComponent(month)}/page`}>{month}</Anchor> },
    ],
    [t, format],
  );
  return (
    <Section title={t("statements")} query={part}>
      {(first) => (
        <div className="stack">
          <CursorTable
            first={first}
            label={t("statementList")}
            queryKey={keys.statements}
            load={(cursor) => unwrap(api.GET("/api/v1/billing/statements", { params: { query: { cursor, limit: 50 } } }))}
            columns={columns}
            rowKey={({ month }) => month}
            refetchInterval={unreported.balance.every}
            empty={<p>{t("noStatements")}</p>}
          />
          <Command text="gpuaas statement list" label={t("copyStatements")} />
        </div>
      )}
    </Section>
  );
}
