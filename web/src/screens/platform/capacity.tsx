import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { type Column, Rows } from "../../components/system/cursor-table";
import { Section } from "../../components/system/section";
import { Empty } from "../../components/system/states";
import { useFormat } from "../../i18n/format";
import type { Part } from "../../query/model";

type Capacity = Schemas["Capacity"];

// Free is the capacity by region and SKU.
export function Free({ part }: { part: Part<Schemas["CapacityList"]> }) {
  const t = useTranslations("platform");
  const format = useFormat();
  const columns = useMemo(
    (): Column<Capacity>[] => [
      { id: "region", header: t("region"), cell: ({ region }) => region },
      { id: "sku", header: t("sku"), cell: ({ sku }) => sku },
      { id: "free", header: t("free"), cell: ({ free }) => format.number(free), number: true },
      { id: "total", header: t("total"), cell: ({ total }) => format.number(total), number: true },
      { id: "nodes", header: t("nodes"), cell: ({ nodes }) => format.number(nodes), number: true },
    ],
    [t, format],
  );
  return (
    <Section title={t("capacity")} query={part} isEmpty={({ items }) => items.length === 0} empty={<Empty text={t("noCapacity")} />}>
      {({ items }) => <Rows label={t("capacity")} columns={columns} rows={items} rowKey={({ region, sku }) => `${region} ${sku}`} />}
    </Section>
  );
}
