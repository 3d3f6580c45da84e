import { type Schema, resolved } from "./contract";

type Change = (schema: Schema, value: unknown) => unknown;

// change applies a change to each value of a body, from the inside out, with the schema of the value.
export function change(schema: Schema | undefined, value: unknown, to: Change): unknown {
  if (schema === undefined) return value;
  const plain = resolved(schema);
  if (Array.isArray(value)) return to(plain, value.map((each) => change(plain.items, each, to)));
  if (typeof value !== "object" || value === null) return to(plain, value);
  const rest = typeof plain.additionalProperties === "object" ? plain.additionalProperties : undefined;
  return to(plain, Object.fromEntries(Object.entries(value).map(([name, each]) => [name, change(plain.properties?.[name] ?? rest, each, to)])));
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

// The status of a section decides whether it has data. An unknown one has none.
const isSectionStatus = ({ enum: values }: Schema) => values?.includes("degraded") === true && values.includes("restricted");

// newer has values that this version of the portal does not know.
export const newer: Change = (schema, value) => {
  if (isObject(value)) return { ...value, of_a_newer_server: { nested: [true] } };
  return schema.enum !== undefined && typeof value === "string" && !isSectionStatus(schema) ? "ascended" : value;
};

// sparse has required fields only, and the data of sections.
export const sparse: Change = ({ required = [], properties }, value) =>
  isObject(value) && properties !== undefined ? Object.fromEntries(Object.entries(value).filter(([name]) => required.includes(name) || name === "data")) : value;

// empty has lists without an item.
export const empty: Change = (_, value) => (Array.isArray(value) ? [] : value);

// texts replaces each text that another user can write.
export const texts =
  (text: () => string): Change =>
  ({ enum: values, const: fixed, format }, value) =>
    typeof value === "string" && values === undefined && fixed === undefined && format === undefined ? text() : value;

// repeated has each item of a list twice.
export const repeated: Change = (_, value) => (Array.isArray(value) ? [...value, ...value] : value);

// amounts replaces each amount, in a currency without minor units.
export const amounts =
  (minor: () => number): Change =>
  (_, value) =>
    isObject(value) ? Object.fromEntries(Object.entries(value).map(([name, each]) => [name, name.endsWith("_minor") && typeof each === "number" ? minor() : name === "currency" ? "JPY" : each])) : value;
