import Ajv from "@redocly/ajv/dist/2020";
// @ts-expect-error the package has no types
import { load } from "js-yaml";
import { readFileSync } from "node:fs";

export type Schema = {
  $ref?: string; type?: string | string[]; enum?: unknown[]; const?: unknown; required?: string[]; format?: string; pattern?: string;
  properties?: Record<string, Schema>; items?: Schema; additionalProperties?: boolean | Schema; allOf?: Schema[]; oneOf?: Schema[];
};
type Content = { content?: Record<string, { schema?: Schema; example?: unknown }>; $ref?: string };
type Operation = { operationId: string; responses: Record<string, Content> };
type Document = { paths: Record<string, Record<string, Operation>>; components: { schemas: Record<string, Schema>; responses: Record<string, Content> } };

// document is the contract of the API.
export const document = load(readFileSync("../api/openapi/openapi.yaml", "utf8")) as Document;

const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true });
ajv.addSchema(document, "contract");

const named = <T extends { $ref?: string }>(value: T): T =>
  value.$ref === undefined ? value : named(value.$ref.slice(2).split("/").reduce((at: never, part) => at[part.replaceAll("~1", "/")], document as never) as T);

// resolved is a schema without a reference, and with the properties of all of its parts.
export function resolved(schema: Schema): Schema {
  const plain = named(schema);
  const parts = (plain.allOf ?? []).map(resolved);
  return parts.reduce((whole, part) => ({ ...whole, ...part, required: [...(whole.required ?? []), ...(part.required ?? [])], properties: { ...whole.properties, ...part.properties } }), plain);
}

type Found = { id: string; path: string; method: string; operation: Operation };

const operations: Found[] = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).flatMap(([method, operation]) => (operation.operationId === undefined ? [] : [{ id: operation.operationId, path, method: method.toUpperCase(), operation }])),
);
const fixedFirst = [...operations].sort((a, b) => a.path.split("{").length - b.path.split("{").length);
const matches = (template: string, path: string) => new RegExp(`^${template.replaceAll(/\{[^}]+\}/g, "[^/]+")}$`).test(path);

// operationOf finds the operation of a call.
export function operationOf(method: string, path: string): Found {
  const found = fixedFirst.find((each) => each.method === method && matches(each.path, path));
  if (found === undefined) throw new Error(`${method} ${path} is no operation of the contract`);
  return found;
}

export function operationNamed(id: string): Found {
  const found = operations.find((each) => each.id === id);
  if (found === undefined) throw new Error(`${id} is no operation of the contract`);
  return found;
}

function successOf({ operation, id }: Found): { status: number; schema?: Schema; example?: unknown } {
  const [status, content] = Object.entries(operation.responses).find(([code]) => code.startsWith("2")) ?? [];
  if (status === undefined || content === undefined) throw new Error(`${id} has no success`);
  return { status: Number(status), ...named(content).content?.["application/json"] };
}

type Section = { status: string; operation: string; data?: unknown };
const isSection = (value: unknown): value is Section => typeof value === "object" && value !== null && "operation" in value && "status" in value;

// A section of a read model has the example of its operation.
const filled = (value: unknown) => (isSection(value) ? { status: "ok", operation: value.operation, data: successOf(operationNamed(value.operation)).example } : value);

// success is the response of an operation with the example of the contract, in which each section is read.
export function success(found: Found): { status: number; body: unknown; schema?: Schema } {
  const { status, schema, example } = successOf(found);
  const isModel = found.path.startsWith("/api/v3/");
  return { status, schema, body: isModel ? Object.fromEntries(Object.entries(example as object).map(([name, value]) => [name, filled(value)])) : structuredClone(example) };
}

// failure is the response with an error of the contract.
export function failure(found: Found, status: number): { status: number; body: unknown } {
  const code = { 400: "bad_request", 401: "token_expired", 403: "forbidden", 404: "not_found", 409: "conflict", 412: "version_mismatch", 429: "rate_limited", 500: "internal", 503: "unavailable" }[status];
  return { status, body: { code, message: `message of ${code}`, correlation_id: "c-1", details: { suggestion: "next step" }, type: "t", title: "t", status, instance: found.path } };
}

// violations are the differences of a response to the contract.
export function violations(found: Found, status: number, body: unknown): string[] {
  const code = String(status);
  const at = status < 400 ? `contract#/paths/${found.path.replaceAll("/", "~1")}/${found.method.toLowerCase()}/responses/${code}/content/application~1json/schema` : "contract#/components/schemas/Problem";
  const check = ajv.getSchema(encodeURI(at).replaceAll("%7B", "{").replaceAll("%7D", "}"));
  if (check === undefined) return [`${found.id} has no schema for ${status}`];
  check(body);
  return (check.errors ?? []).map(({ instancePath, message }) => `${found.id} ${status}${instancePath}: ${message}`);
}
