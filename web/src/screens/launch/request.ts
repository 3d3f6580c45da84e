import type { Schemas } from "../../api/client";

export const emptyDraft = { sku: "", gpus: "1", region: "", hours: "2", name: "", project: "", mounts: "", queue: false };

// Draft is the input of the form, as texts.
export type Draft = typeof emptyDraft;

const nameForm = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

export const isLabel = (name: string) => nameForm.test(name);
export const isName = (name: string) => name === "" || isLabel(name);
export const isCount = (gpus: string) => /^[1-9]\d{0,3}$/.test(gpus);
export const isHours = (hours: string) => hours === "" || secondsOf(hours) >= 60;

const secondsOf = (hours: string) => Math.round(Number(hours.replace(",", ".")) * 3_600);

export const isMounts = (mounts: string) => wrongMount(mounts) === undefined;

// wrongMount is the first line that is no mount.
export function wrongMount(mounts: string): string | undefined {
  const wrong = mountsOf(mounts).findIndex(({ at }) => at === "");
  return wrong < 0 ? undefined : linesOf(mounts)[wrong];
}

const linesOf = (text: string) => text.split("\n").map((line) => line.trim()).filter((line) => line !== "");

const lineForm = /^(?<path>.*?):(?<at>[^:]*?)(?::(?<mode>r[ow]))?$/;

// mountsOf reads lines in the form PATH:AT or PATH:AT:ro, as gpuaas alloc create --mount does. A line in another form has
// no mount point.
export const mountsOf = (lines: string): (Schemas["AllocationMount"] & { path: string })[] =>
  linesOf(lines).map((line) => {
    const { path = line, at = "", mode } = lineForm.exec(line)?.groups ?? {};
    return { path, at, mode: mode === "ro" ? "ro" : "rw" };
  });

export const isComplete = ({ sku, gpus, hours, name, mounts }: Draft) => sku !== "" && isCount(gpus) && isHours(hours) && isName(name) && isMounts(mounts);

// requestOf leaves out what the user left empty: the server has defaults.
export const requestOf = ({ sku, gpus, region, hours, name, mounts, queue }: Draft): Schemas["AllocationRequest"] => ({
  sku,
  gpus: Number(gpus),
  ...(region !== "" && { region }),
  ...(hours !== "" && { ttl_seconds: secondsOf(hours) }),
  ...(name !== "" && { name }),
  ...(mounts.trim() !== "" && { mounts: mountsOf(mounts) }),
  ...(queue && { queue }),
});

// durationOf is a time in the largest unit of the command line that shows it exactly.
function durationOf(seconds: number): string {
  const [size, unit] = ([[3_600, "h"], [60, "m"]] as const).find(([size]) => seconds % size === 0) ?? [1, "s"];
  return `${seconds / size}${unit}`;
}

// quoted is a word that a shell does not read.
const quoted = (word: string) => `'${word.replaceAll("'", `'\\''`)}'`;

// commandOf is the same request on the command line. Only paths have characters that a shell reads: names of projects, SKUs
// and regions are labels.
export function commandOf(draft: Draft, project: string): string {
  const { sku, gpus, region, ttl_seconds, name, mounts, queue } = requestOf(draft);
  const flags = { project: project || undefined, sku, gpus, region, ttl: ttl_seconds === undefined ? undefined : durationOf(ttl_seconds), name };
  const values = Object.entries(flags).flatMap(([flag, value]) => (value === undefined ? [] : [`--${flag} ${value}`]));
  const folders = (mounts ?? []).map(({ path = "", at, mode }) => `--mount ${quoted([path, at, ...(mode === "ro" ? ["ro"] : [])].join(":"))}`);
  return ["gpuaas alloc create", ...values, ...folders, ...(queue ? ["--queue"] : [])].join(" ");
}

// cueOf is the body of the request in CUE, as cue fmt writes it.
export function cueOf(draft: Draft): string {
  const fields = Object.entries(requestOf(draft));
  const width = Math.max(...fields.map(([name]) => name.length)) + 2;
  return fields.map(([name, value]) => `${name}:`.padEnd(width) + JSON.stringify(value)).join("\n");
}

// callOf is the request as HTTP has it. The project is a header, not a field.
export const callOf = (draft: Draft, project: string): string =>
  ["POST /api/v1/allocations", `X-Project-ID: ${project}`, "Content-Type: application/json", "", JSON.stringify(requestOf(draft), null, 2)].join("\n");
