import type { Schemas } from "../../api/client";

type Gpu = Schemas["Gpu"];

// Place is a GPU of the topology with its slot. links name the GPUs that a direct link reaches.
export type Place = { uuid: string; name: string; numa: string; path: string; pcie: string; slot: string; claim: string; links: Link[] };
export type Link = { to: number; way: string };

type Card = { uuid?: unknown; pci?: unknown; numa?: unknown; root?: unknown; switches?: unknown; link?: { width?: unknown; speed_mtps?: unknown } };
type Peer = { a?: unknown; b?: unknown; way?: unknown };

const listOf = <T>(value: unknown): T[] => (Array.isArray(value) ? value.filter((each) => typeof each === "object" && each !== null) : []);
const textOf = (value: unknown) => (typeof value === "string" || typeof value === "number" ? String(value) : "");

const isDirect = (way: string) => way.startsWith("NV");

// placesOf reads the report of a node, of which a newer agent can have other fields. The slots are those of the server.
export function placesOf(topology: Schemas["NodeTopology"]["topology"] | undefined, gpus: Gpu[]): Place[] {
  const cards = listOf<Card>(topology?.["gpus"]);
  const peers = listOf<Peer>(topology?.["peers"]);
  const at = (pci: string) => cards.findIndex((card) => textOf(card.pci) === pci);
  const placed = cards.map((card, index): Place => {
    const gpu = gpus.find(({ uuid }) => uuid === card.uuid);
    const pci = textOf(card.pci);
    const switches = Array.isArray(card.switches) ? card.switches.map(textOf) : [];
    return {
      uuid: textOf(card.uuid) || pci,
      name: gpu === undefined ? pci : String(gpu.index),
      numa: textOf(card.numa),
      path: [textOf(card.root), ...switches, pci].filter(Boolean).join(" › "),
      pcie: [textOf(card.link?.width) && `x${textOf(card.link?.width)}`, Number(card.link?.speed_mtps) > 0 ? `${Number(card.link?.speed_mtps) / 1_000} GT/s` : ""].filter(Boolean).join(" "),
      slot: gpu?.slot_status ?? "",
      claim: gpu?.allocation_name ?? gpu?.allocation_id ?? "",
      links: peers.flatMap(({ a, b, way }) => {
        const ends = [at(textOf(a)), at(textOf(b))];
        const to = ends[0] === index ? ends[1] : ends[1] === index ? ends[0] : undefined;
        return to === undefined || to < 0 || !isDirect(textOf(way)) ? [] : [{ to, way: textOf(way) }];
      }),
    };
  });
  return byNuma(placed);
}

// byNuma sorts the GPUs by their NUMA node, and the ends of the links with them.
function byNuma(places: Place[]): Place[] {
  const order = places.map((_, index) => index).sort((a, b) => Number(places[a]!.numa) - Number(places[b]!.numa) || a - b);
  const moved = new Map(order.map((from, to) => [from, to]));
  return order.map((from) => ({ ...places[from]!, links: places[from]!.links.map(({ to, way }) => ({ to: moved.get(to) ?? to, way })) }));
}

export const size = { width: 132, height: 76, gap: 14, top: 30, arc: 18 };

export const leftOf = (index: number) => size.gap + index * (size.width + size.gap);
export const middleOf = (index: number) => leftOf(index) + size.width / 2;

// groupsOf are the NUMA nodes with their first and last GPU.
export function groupsOf(places: Place[]): { numa: string; first: number; last: number }[] {
  const groups: { numa: string; first: number; last: number }[] = [];
  places.forEach(({ numa }, index) => {
    const last = groups.at(-1);
    if (last?.numa === numa) last.last = index;
    else groups.push({ numa, first: index, last: index });
  });
  return groups;
}

// arcsOf draws each link once, under the GPUs: the farther its ends, the deeper.
export const arcsOf = (places: Place[]): { from: number; to: number; way: string; path: string }[] =>
  places.flatMap(({ links }, from) =>
    links
      .filter(({ to }) => to > from)
      .map(({ to, way }) => {
        const base = size.top + size.height;
        const depth = base + 2 * size.arc * (to - from);
        return { from, to, way, path: `M ${middleOf(from)} ${base} C ${middleOf(from)} ${depth}, ${middleOf(to)} ${depth}, ${middleOf(to)} ${base}` };
      }),
  );
