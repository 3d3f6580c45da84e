import type { Schemas } from "../../api/client";

export const emptyDraft = { sku: "", gpus: "1", region: "", hours: "2", name: "", project: "", queue: false };

// Draft is the input of the form, as texts.
export type Draft = typeof emptyDraft;

const nameForm = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

export const isLabel = (name: string) => nameForm.test(name);
export const isName = (name: string) => name === "" || isLabel(name);
export const isCount = (gpus: string) => /^[1-9]\d{0,3}$/.test(gpus);
export const isHours = (hours: string) => hours === "" || secondsOf(hours) >= 60;

const secondsOf = (hours: string) => Math.round(Number(hours.replace(",", ".")) * 3_600);

export const isComplete = ({ sku, gpus, hours, name }: Draft) => sku !== "" && isCount(gpus) && isHours(hours) && isName(name);

// requestOf leaves out what the user left empty: the server has defaults.
export const requestOf = ({ sku, gpus, region, hours, name, queue }: Draft): Schemas["AllocationRequest"] => ({
  sku,
  gpus: Number(gpus),
  ...(region !== "" && { region }),
  ...(hours !== "" && { ttl_seconds: secondsOf(hours) }),
  ...(name !== "" && { name }),
  ...(queue && { queue }),
});

// durationOf is a time in the largest unit of the command line that shows it exactly.
function durationOf(seconds: number): string {
  const [size, unit] = ([[3_600, "h"], [60, "m"]] as const).find(([size]) => seconds % size === 0) ?? [1, "s"];
  return `${seconds / size}${unit}`;
}

// commandOf is the same request on the command line. Values have no characters that a shell reads: names of projects,
// SKUs and regions are labels.
export function commandOf(draft: Draft, project: string): string {
  const { sku, gpus, region, ttl_seconds, name, queue } = requestOf(draft);
  const flags = { project: project || undefined, sku, gpus, region, ttl: ttl_seconds === undefined ? undefined : durationOf(ttl_seconds), name };
  const values = Object.entries(flags).flatMap(([flag, value]) => (value === undefined ? [] : [`--${flag} ${value}`]));
  return ["gpuaas alloc create", ...values, ...(queue ? ["--queue"] : [])].join(" ");
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
