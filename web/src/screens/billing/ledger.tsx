import { Anchor } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Command } from "../../components/system/copy";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Section } from "../../components/system/section";
import { Time } from "../../components/system/time";
import { useFormat } from "../../i18n/format";
import { keys } from "../../query/keys";
import type { Part } from "../../query/model";
import { useSession } from "../../session/session";
import { unreported } from "../../stream/unreported";

type Entry = Schemas["LedgerEntry"];

export function Ledger({ part }: { part: Part<Schemas["LedgerList"]> }) {
  const t = useTranslations("billing");
  const format = useFormat();
  const columns = useMemo(
    (): Column<Entry>[] => [
      { id: "at", header: t("occurred"), cell: ({ occurred_at }) => <Time at={occurred_at} /> },
      { id: "kind", header: t("kind"), cell: ({ kind, note }) => (note === undefined ? kind : `${kind}: ${note}`) },
      { id: "subject", header: t("subject"), cell: (entry) => <Subject entry={entry} /> },
      { id: "amount", header: t("amount"), cell: ({ amount_minor, currency }) => format.minor(amount_minor, currency), number: true },
    ],
    [t, format],
  );
  return (
    <Section title={t("ledger")} query={part}>
      {(first) => (
        <div className="stack">
          <Anchor href="/api/v1/billing/ledger/csv" download>
            {t("csv")}
          </Anchor>
          <CursorTable
            first={first}
            label={t("ledgerList")}
            queryKey={keys.ledger}
            load={(cursor) => unwrap(api.GET("/api/v1/billing/ledger", { params: { query: { cursor, limit: 50 } } }))}
            columns={columns}
            rowKey={({ id }) => id}
            refetchInterval={unreported.balance.every}
            empty={<p>{t("noLedger")}</p>}
          />
          <Command text="gpuaas ledger list" label={t("copyLedger")} />
        </div>
      )}
    </Section>
  );
}

function Subject({ entry: { kind, allocation_id, allocation_name, reference } }: { entry: Entry }) {
  if (kind === "storage") return <FilesOf project={projectOfCharge(reference)} />;
  if (allocation_id === undefined) return reference;
  return (
    <Link to="/allocations/$id" params={{ id: allocation_id }}>
      {allocation_name ?? allocation_id}
    </Link>
  );
}

// projectOfCharge is the project whose files a charge is for: the last word of its reference.
const projectOfCharge = (reference: string) => reference.split(" ").at(-1) ?? "";

// FilesOf links the files of a project. A deleted project, or one of another member, has its id only.
function FilesOf({ project }: { project: string }) {
  const t = useTranslations("billing");
  const { projects } = useSession();
  const found = projects.find(({ id }) => id === project);
  if (found === undefined) return t("filesOf", { project });
  return (
    <Link to="/files" search={{ project }}>
      {t("filesOf", { project: found.name })}
    </Link>
  );
}
