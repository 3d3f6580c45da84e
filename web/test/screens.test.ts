import { expect, test } from "vitest";
import { costAt, hourly } from "../src/screens/allocation/cost";
import { seriesOf, tableOf } from "../src/screens/allocation/readings";
import { isWebAddress } from "../src/screens/billing/address";
import { projection } from "../src/screens/billing/projection";
import { projectOf } from "../src/screens/launch/project";
import { callOf, commandOf, emptyDraft, isComplete, requestOf } from "../src/screens/launch/request";

const draft = { ...emptyDraft, sku: "h100-sxm", gpus: "2", name: "calm-otter", region: "eu-1", queue: true };

test("the command is the request", () => {
  expect(requestOf(draft)).toEqual({ sku: "h100-sxm", gpus: 2, region: "eu-1", ttl_seconds: 7_200, name: "calm-otter", queue: true });
  expect(commandOf(draft, "speech")).toBe("gpuaas alloc create --project speech --sku h100-sxm --gpus 2 --region eu-1 --ttl 2h --name calm-otter --queue");
  expect(requestOf({ ...emptyDraft, sku: "t4", hours: "" })).toEqual({ sku: "t4", gpus: 1 });
});

test("mounts are lines as on the command line", () => {
  const mounted = { ...draft, mounts: "dataset:data:ro\n\n :all \nit's: a:b:out" };
  expect(requestOf(mounted).mounts).toEqual([
    { path: "dataset", at: "data", mode: "ro" },
    { path: "", at: "all", mode: "rw" },
    { path: "it's: a:b", at: "out", mode: "rw" },
  ]);
  expect(commandOf(mounted, "speech")).toContain("--mount 'dataset:data:ro' --mount ':all' --mount 'it'\\''s: a:b:out' --queue");
  for (const mounts of ["data", "data:", "data::ro"]) {
    expect(isComplete({ ...draft, mounts })).toBe(false);
  }
});

test("what is copied has the project and the exact TTL", () => {
  const ttlOf = (hours: string) => /--ttl (\S+)/.exec(commandOf({ ...draft, hours }, "speech"))?.[1];
  expect(["1.5", "0.51", "0.3333", ""].map(ttlOf)).toEqual(["90m", "1836s", "20m", undefined]);
  expect(ttlOf("0.1111")).toBe("400s");
  const call = callOf(draft, "0190-p");
  expect(call).toMatch(/^POST \/api\/v1\/allocations\nX-Project-ID: 0190-p\n/);
  expect(JSON.parse(call.slice(call.indexOf("{")))).toEqual(requestOf(draft));
});

test("the project of a new allocation is one in which the user may create", () => {
  const allowed = [{ id: "a" }, { id: "b" }];
  expect(projectOf(allowed, "b", "a")).toBe("b");
  expect(projectOf(allowed, "deleted", "b")).toBe("b");
  expect(projectOf(allowed, "", "read-only")).toBe("a");
  expect(projectOf([], "deleted", "read-only")).toBe("");
});

test("a request with a wrong value is not complete", () => {
  for (const wrong of [{ sku: "" }, { gpus: "0" }, { gpus: "-1" }, { gpus: "1.5" }, { hours: "0" }, { hours: "x" }, { name: "A b" }, { name: "-a" }]) {
    expect(isComplete({ ...draft, ...wrong })).toBe(false);
  }
  expect(isComplete(draft)).toBe(true);
});

const allocation = { status: "active", gpus: 2, price: { amount_minor: 1_800, currency: "EUR" }, cost: { amount_minor: 10, currency: "EUR" } } as Parameters<typeof costAt>[0];

test("the cost grows by the second while an allocation is active", () => {
  expect(hourly(allocation).amount_minor).toBe(3_600);
  expect(costAt(allocation, 0, 5_900).amount_minor).toBe(15);
  expect(costAt(allocation, 5_000, 0).amount_minor).toBe(10); // a clock that was set back
  expect(costAt({ ...allocation, status: "released" }, 0, 5_000).amount_minor).toBe(10);
});

test("chart and table have equal numbers", () => {
  const reading = (at: string, value: number) => ({ at, utilisation_percent: value, used_mib: 1_024 * value, power_mw: 1_000 * value, celsius: 40 });
  const gpus = [
    { uuid: "a", readings: [reading("2026-01-05T09:00:00Z", 1), reading("2026-01-05T09:00:10Z", 2)] },
    { uuid: "b", readings: [reading("2026-01-05T09:00:10Z", 3)] },
  ];
  const [times, ...series] = seriesOf(gpus, "memory");
  expect(times).toHaveLength(2);
  expect(series).toEqual([[1, 2], [null, 3]]);
  expect(tableOf(gpus).map(({ memory }) => memory).sort()).toEqual(series.flat().filter((value) => value !== null).sort());
});

test("the projection ends at the runway", () => {
  const balance = { amount_minor: 1_000, burn_per_hour_minor: 100, runway_seconds: 36_000, currency: "EUR" };
  const points = projection(balance, 0);
  expect(points[0]).toEqual({ at: 0, minor: 1_000 });
  expect(points.at(-1)).toEqual({ at: 36_000_000, minor: 0 });
  expect(projection({ ...balance, burn_per_hour_minor: 0, runway_seconds: undefined }, 0)).toEqual([]);
});

test("only web addresses are opened", () => {
  expect(["https://pay.example/c", "javascript:alert(1)", "data:text/html,x", "/x", ""].map(isWebAddress)).toEqual([true, false, false, false, false]);
});
