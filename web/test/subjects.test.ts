import { hashKey } from "@tanstack/react-query";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { keys, refetch } from "../src/query/keys";
import { table } from "../src/stream/table";
import { unreported } from "../src/stream/unreported";
import { map } from "./map";

const read = (module: string) => {
  for (const ending of [".tsx", ".ts"]) {
    try {
      return readFileSync(module + ending, "utf8");
    } catch {
      continue;
    }
  }
  return "";
};

// closure is the code of a screen with all parts of screens that it imports.
function closure(module: string, done = new Set<string>()): string {
  if (done.has(module)) return "";
  done.add(module);
  const code = read(module);
  const parts = [...code.matchAll(/(?:from |import\()"(\.[^"]+)"/g)].map(([, path]) => join(dirname(module), path!)).filter((path) => path.startsWith("src/screens/"));
  return code + parts.map((part) => closure(part, done)).join("");
}

const sample = (value: unknown) => (typeof value === "function" ? (value as (...all: unknown[]) => unknown[])("x", "x") : (value as unknown[]));
const keysIn = (code: string) => [...code.matchAll(/queryKey(?:: |=\{)keys\.(\w+)/g)].map(([, name]) => sample(keys[name as keyof typeof keys]));
const begins = (key: readonly unknown[], beginning: readonly unknown[]) => beginning.every((part, index) => hashKey([part]) === hashKey([key[index]]));

// payloads lead to the keys of an object with the id and the name x.
const payloads = [...["Node", "Allocation", "SKU", "Policy", "Role", "OSImage"].map((kind) => ({ kind, name: "x", object_id: "x" })), { urn: "x", name: "x", plan_id: "x", allocation_ids: ["x"] }];
const changedBy = (subject: string) => payloads.flatMap((payload) => table[subject]!(payload));

// A list with all subjects of a domain has the domain only.
const domainOf = (subject: string) => `${subject.split(".")[0]}.*`;
const inDomain = (domain: string) => Object.keys(table).filter((subject) => domainOf(subject) === domain);
const short = (subjects: string[]) => [...new Set(subjects.map((subject) => (inDomain(domainOf(subject)).every((each) => subjects.includes(each)) ? domainOf(subject) : subject)))];

for (const { route, file, subjects } of map.screens) {
  test(`the map has the subjects that change ${route}`, () => {
    const shown = keysIn(closure(`src/screens/${file}`));
    const want = Object.keys(table).filter((subject) => changedBy(subject).some((changed) => shown.some((key) => begins(key, changed))));
    expect(subjects, `write in web/screens.yaml, for the route ${route}:\n    subjects: [${short(want).join(", ")}]\n`).toEqual(short(want));
  });
}

test("each subject of the table changes a screen", () => {
  const used = new Set(map.screens.flatMap(({ subjects }) => subjects.flatMap((subject) => (subject.endsWith("*") ? inDomain(subject) : subject))));
  expect(Object.keys(table).filter((subject) => !used.has(subject))).toEqual([]);
});

test("a screen polls only what no event reports", () => {
  const intervals = map.screens.flatMap(({ route, file }) => [...closure(`src/screens/${file}`).matchAll(/refetchInterval(?:: |=\{)([^\n]+)/g)].map(([, value]) => [route, value!.replace(/( \}\);|,|\})$/, "")] as const));
  expect(intervals.length).toBeGreaterThan(5);
  const named = [...Object.keys(refetch).map((name) => `refetch.${name}`), ...Object.keys(unreported).map((name) => `unreported.${name}.every`)];
  const others = intervals.filter(([, value]) => !named.includes(value) && !value.includes("=> intervalOf("));
  expect(others).toEqual([]);
});
