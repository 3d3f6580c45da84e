import { NativeSelect } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import { useTranslations } from "use-intl";
import { type Schemas, api, unwrap } from "../../api/client";
import { Command } from "../../components/system/copy";
import { type Column, Rows } from "../../components/system/cursor-table";
import { Download } from "../../components/system/download";
import { Section } from "../../components/system/section";
import { useFormat } from "../../i18n/format";
import { keys, stale } from "../../query/keys";
import type { Part } from "../../query/model";

type Sum = Schemas["UsageSum"];

const dimensions = ["day", "project", "sku", "user"] as const;

// The dimension is in the address. The sums are those of the server, which equal the ledger. The read model has those by day.
export function Usage({ daily }: { daily: Part<Schemas["UsageSummary"]> }) {
  const t = useTranslations("billing");
  const search = useSearch({ from: "/billing" });
  const navigate = useNavigate({ from: "/billing" });
  const by = dimensions.find((each) => each === search.by) ?? "day";
  const query = useQuery({
    queryKey: keys.usage(by),
    queryFn: () => unwrap(api.GET("/api/v1/billing/usage/summary", { params: { query: { by, limit: 200 } } })),
    staleTime: stale.money,
    enabled: by !== "day",
  });
  return (
    <Section title={t("usage")} query={by === "day" ? daily : query}>
      {({ items }) => (
        <div className="stack">
          <div className="row">
            <NativeSelect
              label={t("by")}
              value={by}
              onChange={(event) => void navigate({ search: { by: event.currentTarget.value }, replace: true })}
              data={dimensions.map((value) => ({ value, label: t(value) }))}
            />
            <Download text={t("csv")} file="usage.csv" load={() => unwrap(api.GET("/api/v1/billing/usage/csv", { parseAs: "text" }))} />
          </div>
          {items.length === 0 ? <p>{t("noUsage")}</p> : <Sums sums={items} />}
          <Command text={`gpuaas usage --by ${by}`} label={t("copyUsage")} />
        </div>
      )}
    </Section>
  );
}

function Sums({ sums }: { sums: Sum[] }) {
  const t = useTranslations("billing");
  const format = useFormat();
  const most = Math.max(1, ...sums.map(({ cost }) => cost.amount_minor));
  const columns = useMemo(
    (): Column<Sum>[] => [
      { id: "key", header: t("key"), cell: ({ name, key }) => name || key },
      { id: "hours", header: t("gpuHours"), cell: ({ gpu_seconds }) => format.number(gpu_seconds / 3_600, { maximumFractionDigits: 2 }), number: true },
      { id: "files", header: t("gibHours"), cell: ({ gib_seconds }) => gib_seconds !== undefined && format.number(gib_seconds / 3_600, { maximumFractionDigits: 2 }), number: true },
      { id: "cost", header: t("cost"), cell: ({ cost }) => format.money(cost), number: true },
      { id: "share", header: t("share"), cell: ({ cost }) => <Bar share={cost.amount_minor / most} /> },
    ],
    [t, format, most],
  );
  return <Rows label={t("usageList")} columns={columns} rows={sums} rowKey={({ key }) => key} />;
}

// Bar draws the cost of the column before it, so it has no text of its own.
function Bar({ share }: { share: number }) {
  return (
    <svg width="160" height="12" aria-hidden>
      <rect className="bar" width={Math.max(1, 160 * Math.max(0, share))} height="12" />
    </svg>
  );
}
