import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../../api/client";
import { type Column, CursorTable } from "../../../components/system/cursor-table";
import { Facts } from "../../../components/system/facts";
import { Section } from "../../../components/system/section";
import { Empty } from "../../../components/system/states";
import { useFormat } from "../../../i18n/format";
import { keys, stale } from "../../../query/keys";
import { useSession } from "../../../session/session";
import { unreported } from "../../../stream/unreported";

type Entry = Schemas["LedgerEntry"];

export function Balance({ id }: { id: string }) {
  const t = useTranslations("tenants");
  const format = useFormat();
  const query = useQuery({
    queryKey: keys.tenantBalance(id),
    queryFn: () => unwrap(api.GET("/api/v1/admin/tenants/{tenant_id}/balance", { params: { path: { tenant_id: id } } })),
    staleTime: stale.money,
    refetchInterval: unreported.balance.every,
  });
  const minor = (amount: number | undefined, currency: string) => amount !== undefined && format.minor(amount, currency);
  return (
    <Section title={t("balance")} query={query}>
      {({ currency, low, runway_seconds: runway, ...balance }) => (
        <>
          {low === true && <p className="failure">{t("low")}</p>}
          <Facts
            facts={[
              [t("amount"), format.minor(balance.amount_minor, currency)],
              [t("burn"), t("perHour", { amount: format.minor(balance.burn_per_hour_minor, currency) })],
              [t("runway"), runway !== undefined && format.duration(runway)],
              [t("spent"), minor(balance.spent_this_month_minor, currency)],
              [t("pending"), minor(balance.pending_minor, currency)],
            ]}
          />
        </>
      )}
    </Section>
  );
}

export function Ledger({ id }: { id: string }) {
  const t = useTranslations("tenants");
  const format = useFormat();
  const columns = useMemo(
    (): Column<Entry>[] => [
      { id: "at", header: t("at"), cell: ({ occurred_at }) => format.dateTime(occurred_at) },
      { id: "kind", header: t("kind"), cell: ({ kind, note }) => (note === undefined ? kind : `${kind}: ${note}`) },
      { id: "subject", header: t("subject"), cell: (entry) => <Subject entry={entry} /> },
      { id: "amount", header: t("amount"), cell: ({ amount_minor, currency }) => format.minor(amount_minor, currency), number: true },
    ],
    [t, format],
  );
  return (
    <section className="panel">
      <h2>{t("ledger")}</h2>
      <CursorTable
        label={t("ledger")}
        queryKey={keys.tenantLedger(id)}
        load={(cursor) => unwrap(api.GET("/api/v1/admin/tenants/{tenant_id}/ledger", { params: { path: { tenant_id: id }, query: { cursor, limit: 50 } } }))}
        columns={columns}
        rowKey={({ id: entry }) => entry}
        empty={<Empty text={t("noLedger")} />}
      />
    </section>
  );
}

function Subject({ entry: { allocation_id: id, allocation_name, reference } }: { entry: Entry }) {
  const { may } = useSession();
  if (id === undefined || !may("listAdminAllocations")) return allocation_name ?? reference;
  return <Link to="/admin/allocations/$id" params={{ id }}>{allocation_name ?? id}</Link>;
}
