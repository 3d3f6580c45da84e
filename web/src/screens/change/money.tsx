import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { type Column, Rows } from "../../components/system/cursor-table";
import { Empty } from "../../components/system/states";
import { useFormat } from "../../i18n/format";

type Change = Schemas["MoneyChange"];
type Row = { name: string; before: number; after: number };

// Money is what the change costs per hour, in all and by tenant.
export function Money({ money }: { money: Change[] }) {
  const t = useTranslations("change");
  return (
    <section className="panel stack">
      <h2>{t("money")}</h2>
      {money.length === 0 && <Empty text={t("noMoney")} />}
      {money.map((change) => (
        <div key={change.currency} className="stack">
          <Totals change={change} />
          {change.tenants.length > 0 && <Tenants change={change} />}
        </div>
      ))}
    </section>
  );
}

function Totals({ change: { currency, ...change } }: { change: Change }) {
  const t = useTranslations("change");
  const format = useFormat();
  const columns = useMemo(
    (): Column<Row>[] => [
      { id: "subject", header: t("subject"), cell: ({ name }) => name },
      { id: "before", header: t("before"), cell: ({ before }) => format.minor(before, currency), number: true },
      { id: "after", header: t("after"), cell: ({ after }) => format.minor(after, currency), number: true },
    ],
    [t, format, currency],
  );
  const rows = [
    { name: t("burn"), before: change.burn_before_minor, after: change.burn_after_minor },
    { name: t("capacity"), before: change.capacity_before_minor, after: change.capacity_after_minor },
  ];
  return <Rows label={t("perHour", { currency })} columns={columns} rows={rows} rowKey={({ name }) => name} />;
}

function Tenants({ change: { currency, tenants } }: { change: Change }) {
  const t = useTranslations("change");
  const format = useFormat();
  const columns = useMemo((): Column<Change["tenants"][number]>[] => {
    const runway = (minutes: number | undefined) => (minutes === undefined ? t("endless") : format.duration(minutes * 60));
    return [
      { id: "tenant", header: t("tenant"), cell: ({ name }) => name },
      { id: "before", header: t("before"), cell: (each) => format.minor(each.burn_before_minor, currency), number: true },
      { id: "after", header: t("after"), cell: (each) => format.minor(each.burn_after_minor, currency), number: true },
      { id: "balance", header: t("balance"), cell: (each) => format.minor(each.balance_minor, currency), number: true },
      { id: "runwayBefore", header: t("runwayBefore"), cell: (each) => runway(each.runway_before_minutes), number: true },
      { id: "runwayAfter", header: t("runwayAfter"), cell: (each) => runway(each.runway_after_minutes), number: true },
    ];
  }, [t, format, currency]);
  return <Rows label={t("tenantRows", { currency })} columns={columns} rows={tenants} rowKey={({ tenant_id }) => tenant_id} />;
}
