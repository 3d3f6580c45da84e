import { readFileSync, readdirSync } from "node:fs";
import { expect, test, vi } from "vitest";
import { allocation } from "../src/i18n/en/allocation";
import { billing } from "../src/i18n/en/billing";
import { measures } from "../src/screens/allocation/readings";
import { until } from "./render";
import { everything, loaded, open, pathOf, signedIn, succeeding } from "./screen";
import { type Handler, serve } from "./server";

type Drawn = { title: string; data: [number[], ...(number | null)[][]] };

// A canvas has no text. drawn has what the charts would draw, by their titles.
const drawn = vi.hoisted(() => new Map<string, Drawn>());
vi.mock("../src/components/system/chart", () => ({
  default: (chart: Drawn) => {
    drawn.set(chart.title, chart);
    return null;
  },
}));

const numberOf = (text: string | null | undefined) => Number(text?.replaceAll(/[^\d.-]/g, ""));
const tableOf = (summary: string) => [...document.querySelectorAll("details")].find((each) => each.querySelector("summary")?.textContent === summary);

async function shown(path: string, reply: Handler, charts: number) {
  drawn.clear();
  serve(signedIn(everything, reply));
  await open(path);
  await loaded();
  await until(() => drawn.size === charts);
}

test("the projection of the balance has a table with equal numbers", async () => {
  await shown("/billing", succeeding, 1);
  const [times, balances] = drawn.get(billing.projection)!.data;
  const table = tableOf(billing.projectionTable)!;
  expect(times.length).toBeGreaterThan(2);
  expect(table.querySelectorAll("dt")).toHaveLength(times.length);
  expect([...table.querySelectorAll("dd")].map(({ textContent }) => numberOf(textContent))).toEqual(balances);
});

test("the readings of GPUs have a table with equal numbers", async () => {
  const reading = (gpu: number, minute: number) => ({ at: `2026-01-05T10:0${minute}:0${gpu}Z`, utilisation_percent: 10 * minute + gpu, used_mib: 1_536 * minute, power_mw: 250_100 + 1_000 * gpu, celsius: 40 });
  const gpus = [0, 1].map((gpu) => ({ uuid: `GPU-${gpu}`, readings: [0, 1, 2].map((minute) => reading(gpu, minute)) }));
  const telemetry = { status: "ok", operation: "getAllocationTelemetry", data: { gpus } };
  const measured: Handler = async (request) => {
    const reply = await succeeding(request);
    if (pathOf(request).endsWith("/telemetry")) return { body: { gpus } };
    return pathOf(request).startsWith("/api/v3/") ? { body: { ...(reply.body as object), telemetry } } : reply;
  };
  await shown("/allocations/i", measured, measures.length);
  const rows = [...tableOf(allocation.showTable)!.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td")].map(({ textContent }) => numberOf(textContent)));
  expect(rows).toHaveLength(6);
  measures.forEach((measure, index) => {
    const [, ...lines] = drawn.get(allocation[measure])!.data;
    const points = lines.flatMap((line, gpu) => line.flatMap((value) => (value === null ? [] : [`${gpu} ${value}`])));
    expect(rows.map((row) => `${row[1]} ${row[2 + index]}`).sort(), measure).toEqual(points.sort());
  });
});

test("no other part of a screen draws a chart", () => {
  const parts = readdirSync("src/screens", { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".tsx") && readFileSync(`src/screens/${name}`, "utf8").includes("components/system/chart"));
  expect(parts.sort()).toEqual(["allocation/telemetry.tsx", "billing/balance.tsx"]);
});
