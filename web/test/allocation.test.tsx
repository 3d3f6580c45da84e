import { act } from "react";
import { expect, test, vi } from "vitest";
import { RouterProvider, createMemoryHistory } from "@tanstack/react-router";
import { newRouter } from "../src/routes/router";
import { setConnection } from "../src/stream/state";
import { labelsOf } from "../src/screens/allocation/labels";
import { button, click, enter, render, until } from "./render";
import { type Handler, problem, serve } from "./server";

const open = (search = "") => render(<RouterProvider router={newRouter(createMemoryHistory({ initialEntries: [`/portal/allocations/a${search}`] })) as never} />);
const ok = (data: object) => ({ status: "ok", operation: "o", data });
const money = (amount_minor: number) => ({ amount_minor, currency: "EUR" });
const allocation = {
  id: "a", urn: "urn:a", name: "calm-otter", status: "active", sku: "t4", gpus: 2, region: "eu-1", login: "u200017", price: money(100), cost: money(700), labels: { team: "vision" }, version: 3,
  created_at: "2026-01-05T09:00:00Z", status_at: "2026-01-05T09:00:04Z", active_at: "2026-01-05T09:00:04Z", updated_at: "x", project_id: "p", user_id: "u", node_id: null, conditions: [],
};
const ended = { ...allocation, status: "released", ended_at: "2026-01-05T11:00:00Z" };
const interval = {
  id: "i", urn: "u", allocation_id: "a", project_id: "p", sku: "t4", gpus: 2, price: money(100), started_at: "2026-01-05T09:00:04Z", opened_by: "observed_ready", opened_observation: { node_id: "n-7", fence: 1 },
  ended_at: "2026-01-05T11:00:00Z", closed_by: "release_requested", seconds: 7_196, cost: money(399), credited: money(5), credited_because: "node_unhealthy", created_at: "x", updated_at: "x",
};
const readings = { gpus: [{ uuid: "GPU-1", readings: [{ at: "2026-01-05T10:59:00Z", utilisation_percent: 97, used_mib: 1_024, power_mw: 1_000, celsius: 40 }] }] };

const routes = (value: object, role: string, more: Record<string, Handler> = {}): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "u", email: "dev@x", name: "Dev" }, tenant: { id: "t", name: "t", role } } }),
  "GET /api/v1/projects": () => ({ body: { items: [] } }),
  "GET /api/v3/compute/allocations/a": () => ({ body: { allocation: ok(value), timeline: ok({ items: [] }), why: ok({}), faults: ok({ items: [] }), telemetry: ok({ gpus: [{ uuid: "GPU-1", readings: [] }] }) } }),
  "GET /api/v1/billing/usage/intervals": () => ({ body: { items: [interval] } }),
  "GET /api/v1/allocations/a/telemetry": () => ({ body: readings }),
  "GET /api/v1/allocations/a/proof": () => problem(404, "proof_missing"),
  ...more,
});

const shows = (text: string) => until(() => document.body.textContent?.includes(text) === true);
const dialog = () => document.querySelector('[role="dialog"]');
const submit = () => dialog()?.querySelector('button[type="submit"]');

test("labels are one per line, and a wrong line is no label", () => {
  expect(labelsOf("team=vision\n\n stage = a=b ")).toEqual({ team: "vision", stage: "a=b" });
  expect(labelsOf("")).toEqual({});
  expect(["team", "=x", "a=1\na=2", `a=${"x".repeat(257)}`].map(labelsOf)).toEqual([undefined, undefined, undefined, undefined]);
});

test("only what has changed is sent, with the version of the opened form, and can be undone", async () => {
  let value = allocation;
  const calls = serve(
    routes(allocation, "owner", {
      "GET /api/v3/compute/allocations/a": () => ({ body: { allocation: ok(value), timeline: ok({ items: [] }), why: ok({}), faults: ok({ items: [] }), telemetry: ok({ gpus: [] }) } }),
      "PATCH /api/v1/allocations/a": () => ({ body: { ...allocation, name: "brave-otter", version: 9 } }),
    }),
  );
  await open();
  await until(() => button("Change name and labels") !== undefined);
  await click(button("Change name and labels"));
  expect(document.activeElement?.tagName).toBe("INPUT");
  // Another user changes the allocation, and the screen reads it again.
  value = { ...allocation, version: 8 };
  await enter("Name", "Wrong Name");
  expect(button("Save")?.disabled).toBe(true);
  await enter("Name", "brave-otter");
  await click(button("Save"));
  await shows("brave-otter is changed.");
  const patches = () => calls.filter(({ method }) => method === "PATCH");
  expect(patches()[0]?.headers.get("If-Match")).toBe('"3"');
  expect(await patches()[0]?.json()).toEqual({ name: "brave-otter" });
  expect(document.activeElement).toBe(button("Change name and labels"));
  await click(button("Undo"));
  await until(() => patches().length === 2);
  expect(patches()[1]?.headers.get("If-Match")).toBe('"9"');
  expect(await patches()[1]?.json()).toEqual({ name: "calm-otter", labels: { team: "vision" } });
});

test("a fault of a GPU is reported", async () => {
  const calls = serve(routes(allocation, "owner", { "POST /api/v1/allocations/a/report-fault": () => ({ status: 202, body: {} }) }));
  await open();
  await until(() => button("Report a fault") !== undefined);
  await click(button("Report a fault"));
  await until(() => dialog() !== null);
  expect((submit() as HTMLButtonElement).disabled).toBe(true);
  await enter("What you have observed", " wrong sums ");
  await enter("Fault of", "GPU-1");
  await click(submit());
  await shows("An operator decides about it.");
  expect(await calls.find(({ method }) => method === "POST")?.json()).toEqual({ message: "wrong sums", gpu: "GPU-1" });
});

test("the dialog of a fault opens again with its input after a sign-in that the report needed", async () => {
  const replies = [problem(403, "step_up_required"), { status: 202, body: {} }];
  const calls = serve(routes(allocation, "owner", { "POST /api/v1/allocations/a/report-fault": () => replies.shift()! }));
  await open();
  await until(() => button("Report a fault") !== undefined);
  await click(button("Report a fault"));
  await until(() => dialog() !== null);
  await enter("What you have observed", "wrong sums");
  await enter("Fault of", "GPU-1");
  await click(submit());
  await shows("message of step_up_required");
  document.body.replaceChildren();
  await open();
  await until(() => dialog() !== null);
  await click(submit());
  await shows("An operator decides about it.");
  expect(await calls.filter(({ method }) => method === "POST")[1]?.json()).toEqual({ message: "wrong sums", gpu: "GPU-1" });
});

test("the fault reports of an allocation have the decisions of operators", async () => {
  const report = { id: "f", urn: "u", allocation_id: "a", status: "confirmed", message: "<b>wrong sums</b>", reported_at: "2026-01-05T09:20:00Z", reported_by: "user:u", decided_reason: "reproduced", created_at: "x", updated_at: "x" };
  const faults = ok({ items: [report, { ...report, id: "g", status: "open", gpu: "GPU-1", decided_reason: undefined }] });
  serve(routes(allocation, "viewer", { "GET /api/v3/compute/allocations/a": () => ({ body: { allocation: ok(allocation), timeline: ok({ items: [] }), why: ok({}), telemetry: ok({ gpus: [] }), faults } }) }));
  await open();
  for (const part of ["<b>wrong sums</b>", "Confirmed: reproduced", "GPU-1", "Open"]) await shows(part);
});

test("a new allocation without readings says when they appear", async () => {
  serve(routes(allocation, "viewer"));
  await open();
  await shows("Readings of a new allocation appear within a minute or two.");
});

test("the dialog of a release names what ends and what it has cost", async () => {
  serve(routes(allocation, "owner"));
  await open();
  await until(() => button("Release") !== undefined);
  await click(button("Release"));
  await until(() => dialog() !== null);
  for (const text of ["u200017", "2 GPUs of t4 in eu-1", "€2.00 per hour", "€7.0"]) expect(dialog()?.textContent).toContain(text);
});

test("a finished allocation has its final charts and the proof of its release", async () => {
  const proof = { allocation_id: "a", proved_at: "2026-01-05T11:00:20Z", public_key: "11qY", gpus: ["GPU-1"], proof: { checks: ["no_account"], leftovers: [], scrubbed: ["GPU-1"] } };
  const calls = serve(routes(ended, "owner", { "GET /api/v1/allocations/a/proof": () => ({ body: proof }) }));
  await open();
  await shows("no_account");
  await shows("97");
  const asked = new URL(calls.find(({ url }) => url.includes("/telemetry"))!.url).searchParams;
  expect([asked.get("from"), asked.get("to")]).toEqual(["2026-01-05T10:00:00.000Z", "2026-01-05T11:00:00Z"]);
  const link = document.querySelector('a[href="/api/v1/allocations/a/proof"]');
  expect(link?.getAttribute("download")).toBe("proof-calm-otter.json");
  for (const gone of ["Change name and labels", "Report a fault", "Release"]) expect(button(gone)).toBeUndefined();
});

test("the charts of an active allocation are read again while the stream works", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval"] });
  setConnection({ state: "live", failures: 0 });
  const calls = serve(routes(allocation, "viewer"));
  const reads = () => calls.filter(({ url }) => url.endsWith("/api/v3/compute/allocations/a")).length;
  await open();
  await act(() => vi.advanceTimersByTimeAsync(500));
  expect(reads()).toBe(1);
  await act(() => vi.advanceTimersByTimeAsync(16_000));
  expect(reads()).toBe(2);
  setConnection({ state: "connecting", failures: 0 });
  vi.useRealTimers();
});

test("the address has the period of the charts", async () => {
  const calls = serve(routes(ended, "owner"));
  await open("?hours=24");
  await until(() => calls.some(({ url }) => url.includes("/telemetry")));
  expect(new URL(calls.find(({ url }) => url.includes("/telemetry"))!.url).searchParams.get("from")).toBe("2026-01-04T11:00:00.000Z");
});

test("an end without a proof is no error", async () => {
  serve(routes(ended, "owner"));
  await open();
  await shows("No node has proved the end");
  expect(document.body.textContent).not.toContain("proof_missing");
});

test("each interval has its causes, its observation and the evidence of its day", async () => {
  serve(routes(allocation, "owner"));
  await open();
  await shows("Observed ready");
  for (const text of ["n-7", "Release requested", "€0.05", "Unhealthy node", "€3.99"]) expect(document.body.textContent).toContain(text);
  expect(document.querySelector('a[href="/api/v1/billing/evidence?day=2026-01-05"]')?.getAttribute("download")).toBe("evidence-2026-01-05.json");
});

test("a member without the ledger sees no intervals, and a viewer no change", async () => {
  const calls = serve({ ...routes(allocation, "viewer") });
  await open();
  await shows("u200017");
  expect(calls.some(({ url }) => url.includes("/usage/intervals"))).toBe(false);
  for (const gone of ["Change name and labels", "Report a fault"]) expect(button(gone)).toBeUndefined();
});
