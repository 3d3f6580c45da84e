import { useMemo } from "react";
import { useTranslations } from "use-intl";
import type { Schemas } from "../../api/client";
import { type Column, Rows } from "../../components/system/cursor-table";
import { Section } from "../../components/system/section";
import { Empty } from "../../components/system/states";
import { useWords } from "../../components/system/words";
import type { Part } from "../../query/model";
import { type Place, arcsOf, groupsOf, leftOf, placesOf, size } from "./layout";

type Props = { part: Part<Schemas["NodeTopology"]>; gpus: Schemas["Gpu"][] };

// marks differ in form, not only in colour.
const marks: Record<string, string> = { clean: "○", claimed: "●", dirty: "◑", quarantined: "▲" };

// Topology draws the GPUs of the last complete report. The table has what the drawing has.
export function Topology({ part, gpus }: Props) {
  const t = useTranslations("topology");
  return (
    <Section title={t("title")} query={part} isEmpty={({ topology }) => placesOf(topology, gpus).length === 0} empty={<Empty text={t("none")} />}>
      {({ topology }) => <Places places={placesOf(topology, gpus)} />}
    </Section>
  );
}

function Places({ places }: { places: Place[] }) {
  const t = useTranslations("topology");
  const word = useWords();
  const columns = useMemo(
    (): Column<Place>[] => [
      { id: "gpu", header: t("gpu"), cell: ({ name }) => t("gpuText", { name }) },
      { id: "numa", header: t("numa"), cell: ({ numa }) => t("numaText", { numa }) },
      { id: "path", header: t("path"), cell: ({ path }) => path },
      { id: "pcie", header: t("pcie"), cell: ({ pcie }) => pcie },
      { id: "slot", header: t("slot"), cell: ({ slot }) => word(slot) },
      { id: "claim", header: t("claim"), cell: ({ claim }) => claim || t("noClaim") },
      { id: "links", header: t("links"), cell: ({ links }) => links.map(({ to, way }) => t("linkText", { way, name: places[to]?.name ?? "" })).join(", ") || t("noLinks") },
    ],
    [t, word, places],
  );
  return (
    <div className="stack">
      <Drawing places={places} />
      <Rows label={t("title")} columns={columns} rows={places} rowKey={({ uuid }) => uuid} />
    </div>
  );
}

// Drawing has no text for a screen reader, because the table next to it has all of it.
function Drawing({ places }: { places: Place[] }) {
  const t = useTranslations("topology");
  const arcs = arcsOf(places);
  const deepest = Math.max(0, ...arcs.map(({ from, to }) => to - from));
  const width = leftOf(places.length);
  const height = size.top + size.height + 1.5 * size.arc * deepest + size.gap;
  return (
    <div aria-hidden>
      <svg className="topology" style={{ maxWidth: width }} viewBox={`0 0 ${width} ${height}`}>
        {groupsOf(places).map(({ numa, first, last }) => (
          <g key={first}>
            <rect className="numa" x={leftOf(first) - 6} y={4} width={leftOf(last) + size.width - leftOf(first) + 12} height={size.top + size.height + 2} rx={4} />
            <text x={leftOf(first)} y={20}>
              {t("numaText", { numa })}
            </text>
          </g>
        ))}
        {arcs.map(({ from, to, path }) => (
          <path key={`${from} ${to}`} className="nvlink" d={path} />
        ))}
        {places.map((place, index) => (
          <Box key={place.uuid} place={place} left={leftOf(index)} />
        ))}
      </svg>
    </div>
  );
}

// A name that is longer than its box ends with dots. The table has all of it.
const most = 18;
const short = (text: string) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

function Box({ place: { name, path, pcie, slot, claim }, left }: { place: Place; left: number }) {
  const t = useTranslations("topology");
  const word = useWords();
  const lines = [t("gpuText", { name }), `${marks[slot] ?? "?"} ${word(slot)}`, claim || pcie];
  return (
    <g transform={`translate(${left} ${size.top})`}>
      <title>{path}</title>
      <rect className={slot === "claimed" ? "gpu claimed" : "gpu"} width={size.width} height={size.height} rx={3} />
      {lines.map((line, index) => (
        <text key={index} x={8} y={20 + 20 * index}>
          {short(line)}
        </text>
      ))}
    </g>
  );
}
