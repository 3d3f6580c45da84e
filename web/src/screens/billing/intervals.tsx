import { Anchor } from "@mantine/core";
import { useMemo } from "react";
import { Link } from "@tanstack/react-router";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { type Column, CursorTable } from "../../components/system/cursor-table";
import { Time } from "../../components/system/time";
import { useWords } from "../../components/system/words";
import { useFormat } from "../../i18n/format";
import { keys } from "../../query/keys";
import { useSession } from "../../session/session";
import { unreported } from "../../stream/unreported";

type Interval = Schemas["UsageInterval"];

// The allocation and the start of the period limit the list. Without them it has those of this month.
type Props = { allocation?: string; from?: string };

// Intervals lists measured use with its causes, the observations behind them, and the signed evidence of the day.
export function Intervals({ allocation, from }: Props) {
  const t = useTranslations("intervals");
  const columns = useColumns(allocation === undefined);
  return (
    <CursorTable
      label={t("list")}
      queryKey={keys.intervals(allocation)}
      load={(cursor) => unwrap(api.GET("/api/v1/billing/usage/intervals", { params: { query: { allocation_id: allocation, from, cursor, limit: 20 } } }))}
      columns={columns}
      rowKey={({ id }) => id}
      refetchInterval={unreported.balance.every}
      empty={<p>{t("none")}</p>}
    />
  );
}

function useColumns(all: boolean): Column<Interval>[] {
  const t = useTranslations("intervals");
  const format = useFormat();
  const word = useWords();
  const { may } = useSession();
  const audited = may("getBillingEvidence");
  return useMemo(
    () => [
      ...(all ? [{ id: "allocation", header: t("allocation"), cell: ({ allocation_id, allocation_name }: Interval) => <Link to="/allocations/$id" params={{ id: allocation_id }}>{allocation_name ?? allocation_id}</Link> }] : []),
      { id: "start", header: t("start"), cell: ({ started_at, opened_by, opened_observation }) => <Edge at={started_at} cause={word(opened_by)} observation={opened_observation} /> },
      { id: "end", header: t("end"), cell: ({ ended_at, closed_by, closed_observation }) => (ended_at === undefined ? t("open") : <Edge at={ended_at} cause={word(closed_by ?? "")} observation={closed_observation} />) },
      { id: "seconds", header: t("duration"), cell: ({ seconds }) => format.duration(seconds), number: true },
      { id: "price", header: t("price"), cell: ({ gpus, price }) => t("priceOf", { gpus, price: format.money(price) }), number: true },
      { id: "credited", header: t("credited"), cell: ({ credited, credited_because }) => (credited_because === undefined ? format.money(credited) : t("because", { amount: format.money(credited), cause: word(credited_because) })), number: true },
      { id: "cost", header: t("cost"), cell: ({ cost }) => format.money(cost), number: true },
      ...(audited ? [{ id: "evidence", header: t("evidence"), cell: ({ started_at }: Interval) => <Evidence day={started_at.slice(0, 10)} /> }] : []),
    ],
    [t, format, word, all, audited],
  );
}

// Edge is the start or the end of an interval: its time, its cause, and what the node observed.
function Edge({ at, cause, observation }: { at: string; cause: string; observation?: Record<string, unknown> }) {
  const t = useTranslations("intervals");
  return (
    <>
      <Time at={at} /> {cause}
      {observation !== undefined && (
        <details>
          <summary>{t("observation")}</summary>
          <pre>{JSON.stringify(observation, null, 2)}</pre>
        </details>
      )}
    </>
  );
}

// Evidence is the document of the UTC day in which an interval starts.
function Evidence({ day }: { day: string }) {
  const t = useTranslations("intervals");
  return (
    <Anchor href={`/api/v1/billing/evidence?day=${encodeURIComponent(day)}`} download={`evidence-${day}.json`} aria-label={t("download", { day })}>
      {day}
    </Anchor>
  );
}
