import { NativeSelect } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../../api/client";
import { type Column, CursorTable } from "../../../components/system/cursor-table";
import { Empty } from "../../../components/system/states";
import { useFormat } from "../../../i18n/format";
import { keys } from "../../../query/keys";

type Sum = Schemas["UsageSum"];

const dimensions = ["project", "sku", "user", "day"] as const;
type Dimension = (typeof dimensions)[number];

// Usage are the sums of the server for this month, which equal the ledger of the tenant.
export function Usage({ id }: { id: string }) {
  const t = useTranslations("tenants");
  const format = useFormat();
  const [by, setBy] = useState<Dimension>("project");
  const columns = useMemo(
    (): Column<Sum>[] => [
      { id: "key", header: t("by"), cell: ({ name, key }) => name || key },
      { id: "hours", header: t("hours"), cell: ({ gpu_seconds }) => format.number(gpu_seconds / 3_600, { maximumFractionDigits: 2 }), number: true },
      { id: "files", header: t("gibHours"), cell: ({ gib_seconds }) => gib_seconds !== undefined && format.number(gib_seconds / 3_600, { maximumFractionDigits: 2 }), number: true },
      { id: "cost", header: t("cost"), cell: ({ cost }) => format.money(cost), number: true },
    ],
    [t, format],
  );
  return (
    <section className="panel stack">
      <h2>{t("usage")}</h2>
      <NativeSelect label={t("by")} value={by} onChange={(event) => setBy(event.currentTarget.value as Dimension)} data={dimensions.map((value) => ({ value, label: t(`bys.${value}`) }))} />
      <CursorTable
        label={t("usage")}
        queryKey={keys.tenantUsage(id, by)}
        load={(cursor) => unwrap(api.GET("/api/v1/admin/tenants/{tenant_id}/usage", { params: { path: { tenant_id: id }, query: { by, cursor, limit: 100 } } }))}
        columns={columns}
        rowKey={({ key }) => key}
        empty={<Empty text={t("noUsage")} />}
      />
    </section>
  );
}
