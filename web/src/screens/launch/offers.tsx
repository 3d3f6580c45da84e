import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { type Column, Rows } from "../../components/system/cursor-table";
import { useWords } from "../../components/system/words";
import { useFormat } from "../../i18n/format";

type Sku = Schemas["Sku"];
type Props = { skus: Sku[]; capacity?: Schemas["Capacity"][]; chosen: string; choose: (sku: string) => void };

const gib = 2 ** 30;

// Offers is a table whose rows are the options of one group.
export function Offers({ skus, capacity, chosen, choose }: Props) {
  const t = useTranslations("launch");
  const format = useFormat();
  const word = useWords();
  const columns = useMemo(
    (): Column<Sku>[] => [
      {
        id: "sku",
        header: t("sku"),
        cell: ({ name, display_name }) => (
          <label>
            <input type="radio" name="sku" value={name} checked={chosen === name} onChange={() => choose(name)} required aria-label={t("choose", { name: display_name })} />{" "}
            {display_name} <code>{name}</code>
          </label>
        ),
      },
      { id: "memory", header: t("memory"), cell: ({ memory_gib }) => format.bytes(memory_gib * gib), number: true },
      { id: "price", header: t("price"), cell: ({ price }) => format.money(price), number: true },
      { id: "free", header: t("free"), cell: ({ free }) => format.number(free), number: true },
      { id: "isolation", header: t("isolation"), cell: ({ isolation }) => word(isolation) },
      ...(capacity === undefined ? [] : [{ id: "nodes", header: t("nodes"), cell: ({ name }: Sku) => <Nodes regions={capacity.filter(({ sku }) => sku === name)} /> }]),
      { id: "most", header: t("most"), cell: ({ max_gpus }) => format.number(max_gpus), number: true },
    ],
    [t, format, word, capacity, chosen, choose],
  );
  return <Rows label={t("offersList")} columns={columns} rows={skus} rowKey={({ id }) => id} />;
}

// Nodes shows in how many nodes of a region the GPUs are. All GPUs of an allocation are in one node.
function Nodes({ regions }: { regions: Schemas["Capacity"][] }) {
  const t = useTranslations("launch");
  return regions.map(({ region, nodes, total, free }) => <div key={region}>{t("nodesIn", { region, nodes, total, free })}</div>);
}
