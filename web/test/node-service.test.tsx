import { expect, test } from "vitest";
import { localOf } from "../src/components/system/when";
import { arcsOf, groupsOf, placesOf } from "../src/screens/node/layout";
import { confirmButton, labelled, open, opens, shows, text, written } from "./operator";
import { button, click, enter, until } from "./render";
import { type Handler, problem, serve } from "./server";

const at = "2026-01-05T09:00:00Z";
const times = { urn: "u", created_at: at, updated_at: at };
const ok = (data: object) => ({ status: "ok", operation: "o", data });
const gpu = (index: number, slot_status: string, more: object = {}) => ({ uuid: `g${index}`, index, model: "H100", memory_mib: 81_559, health: "healthy", reasons: [], present: true, slot_id: `s${index}`, slot_status, slot_reason: "", ...more });
const gpus = [gpu(0, "claimed", { allocation_id: "a1", allocation_name: "calm-otter" }), gpu(1, "quarantined"), gpu(2, "clean")];
const card = (index: number, numa: number) => ({ uuid: `g${index}`, pci: `0000:${index}b:00.0`, numa, root: "pci0000:10", switches: ["0000:11:00.0"], link: { width: 16, speed_mtps: 32_000 } });
const topology = { gpus: [card(1, 1), card(0, 0), card(2, 1)], peers: [{ a: "0000:0b:00.0", b: "0000:1b:00.0", way: "NV18" }, { a: "0000:0b:00.0", b: "0000:2b:00.0", way: "SYS" }] };
const node = {
  id: "n", name: "gpu-07", sku: "h100", region: "eu-1", lifecycle: "active", health: "degraded", reachability: "reachable", occupancy: "partial", cordoned: false, free: 1, slots: 3, quarantined: 1, message: "", onboarding: "manual",
  fingerprint: "f1", reported_fingerprint: "f2", changed: "GPU 2 was replaced", gpus, source: { owner: "api" }, ...times,
  holds: [{ id: "h", kind: "cordon", cause: "operator", owner: "user:kim", owner_name: "Kim", reason: "new fans", ...times, created_at: "2026-01-04T09:00:00Z" }],
  health_reports: [{ source: "dcgm", target: "g1", level: "degraded", check: "ecc", message: "<b>row remap</b>", started_at: at }],
  agent_updates: [{ version: "1.3.0", previous: "1.2.0", ring: 2, status: "running", message: "", requested_at: at, updated_at: "2026-01-06T09:00:00Z" }],
};
const fault = { id: "f1", allocation_id: "a1", node_name: "gpu-07", status: "open", message: "noise", reported_at: at, reported_by: "user:ada", ...times };
const none = ok({ items: [] });
const desired = { kind: "Node", metadata: { name: "gpu-07", generation: 3, source: { owner: "git", source: "fleet", path: "nodes.cue", line: 4, commit: "9f" }, suspended: { by: "user:kim", reason: "vendor", suspended_at: at } }, status: { sync: "Synced" } };
const view = (more: object = {}) => ({ body: { node: ok({ ...node, ...more }), allocations: none, topology: ok({ node: "gpu-07", topology }), trace: ok({ object: {}, steps: [{ stage: "job", occurred_at: at, state: "completed", message: "node_task", reference: "42" }] }) } });
const routes = (role: string, more: Record<string, Handler> = {}): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "op@x", name: "Op", role } } }),
  "GET /api/v3/platform/nodes/gpu-07": () => view(),
  "GET /api/v1/admin/desired/Node/gpu-07": () => ({ body: desired }),
  "GET /api/v1/admin/git-sources": () => ({ body: { items: [] } }),
  "GET /api/v3/platform/fleet": () => ({ body: { nodes: ok({ items: [node] }), capacity: none, faults: ok({ items: [fault] }) } }),
  "GET /api/v3/platform/ops": () => ({ body: { overview: ok({ panels: [{ name: "breaker", status: "degraded", message: "automatic holds are stopped", runbook_id: "mass-action-breaker", values: { open: 1 } }] }), health: ok({ status: "ok", checks: [] }), drift: none, plans: none, faults: none } }),
  ...more,
});

test("the drawing and the table of the topology have equal content", async () => {
  serve(routes("operator"));
  await open("/fleet/gpu-07");
  await shows("NV18 to GPU 1");
  const places = placesOf(topology, gpus as never);
  expect(places.map(({ name }) => name)).toEqual(["0", "1", "2"]);
  expect(groupsOf(places)).toEqual([{ numa: "0", first: 0, last: 0 }, { numa: "1", first: 1, last: 2 }]);
  const drawn = document.querySelector("svg.topology")!;
  const rows = [...document.querySelectorAll('[aria-label="GPU topology"] tbody tr')].map(({ textContent }) => textContent ?? "");
  expect(rows).toHaveLength(drawn.querySelectorAll(".gpu").length);
  expect(drawn.querySelectorAll(".numa")).toHaveLength(2);
  expect(drawn.querySelectorAll(".nvlink")).toHaveLength(1);
  expect(rows[0]).toContain("calm-otter");
  expect(drawn.textContent).toContain("calm-otter");
  expect(rows[0]).toContain("pci0000:10 › 0000:11:00.0 › 0000:0b:00.0");
});

test("a report of a newer agent breaks no drawing", () => {
  expect([placesOf({}, []), placesOf(undefined, [])]).toEqual([[], []]);
  expect(placesOf({ gpus: "many", peers: 3 }, [])).toEqual([]);
  const odd = placesOf({ gpus: [null, { pci: 7 }, {}], peers: [{ a: "x", b: "y", way: "NV1" }, { a: 1 }] }, []);
  expect(odd).toHaveLength(2);
  expect(arcsOf(odd)).toEqual([]);
});

test("the health timeline is newest first, and messages are text", async () => {
  serve(routes("operator"));
  await open("/fleet/gpu-07");
  await shows("<b>row remap</b>");
  const entries = [...document.querySelectorAll(".timeline")][0]?.textContent ?? "";
  expect(entries.indexOf("1.3.0")).toBeLessThan(entries.indexOf("row remap"));
  expect(entries.indexOf("row remap")).toBeLessThan(entries.indexOf("new fans"));
  expect(document.querySelector<HTMLAnchorElement>('a[href$="/admin/river/jobs/42"]')?.textContent).toBe("42");
});

test("an operator quarantines a slot, and is offered no change of administrators", async () => {
  const calls = serve(routes("operator", { "POST /api/v1/admin/slots/s2/quarantine": () => ({ body: {} }) }));
  await open("/fleet/gpu-07");
  await opens("Quarantine GPU 2");
  for (const label of ["Clear GPU 1", "Quarantine GPU 1", "Reset GPU 2", "Accept the hardware gpu-07", "Revoke the certificates gpu-07", "Retire gpu-07", "Override health gpu-07"]) expect(labelled(label)).toBeNull();
  expect(button("Create an enrolment token")).toBeUndefined();
  await enter("Reason", "ECC errors");
  await click(confirmButton());
  await shows("The slot of GPU 2 is quarantined.");
  expect(await written(calls)[0]?.json()).toEqual({ reason: "ECC errors" });
});

test("an administrator clears a slot after an inspection", async () => {
  const replies = [problem(409, "proof_missing"), { body: {} }];
  const calls = serve(routes("admin", { "POST /api/v1/admin/slots/s1/clear": () => replies.shift()! }));
  await open("/fleet/gpu-07");
  await opens("Clear GPU 1");
  await enter("Reason", "replaced");
  await click(confirmButton());
  await shows("message of proof_missing");
  await click(document.querySelector('[role="dialog"] input[type="checkbox"]'));
  await click(confirmButton());
  await shows("The slot of GPU 1 is cleared");
  expect(await Promise.all(written(calls).map((call) => call.json()))).toEqual([{ reason: "replaced" }, { reason: "replaced", inspected: true }]);
});

test("the hardware on the screen is accepted by name", async () => {
  const calls = serve(routes("admin", { "POST /api/v1/admin/nodes/gpu-07/accept-hardware": () => ({ body: node }) }));
  await open("/fleet/gpu-07");
  await opens("Accept the hardware gpu-07");
  expect(document.querySelector('[role="dialog"]')?.textContent).toContain("GPU 2 was replaced");
  await enter("Reason", "new board");
  await enter("Type gpu-07", "gpu-07");
  await click(confirmButton());
  await shows("The hardware of gpu-07 is accepted.");
  expect(await written(calls)[0]?.json()).toEqual({ fingerprint: "f2", reason: "new board" });
});

test("a health override has a target and an end", async () => {
  const calls = serve(routes("admin", { "POST /api/v1/admin/nodes/gpu-07/health-override": () => ({ body: node }) }));
  await open("/fleet/gpu-07");
  await opens("Override health gpu-07");
  await enter("Reason", "leak");
  await enter("Applies to", "g1");
  await enter("Ends", localOf(Date.now() - 120_000));
  expect(confirmButton()?.disabled).toBe(true);
  const end = localOf(Date.now() + 7_200_000);
  await enter("Ends", end);
  await click(confirmButton());
  await shows("The health of gpu-07 is overridden.");
  expect(await written(calls)[0]?.json()).toEqual({ level: "unhealthy", target: "g1", until: new Date(end).toISOString(), reason: "leak" });
});

test("a node of Git is not retired here, and an enrolment token is shown once", async () => {
  serve(routes("admin", { "GET /api/v3/platform/nodes/gpu-07": () => view({ source: { owner: "git" } }), "POST /api/v1/admin/nodes/gpu-07/enrolment-token": () => ({ status: 201, body: { node: "gpu-07", token: "gpt_secret", expires_at: at } }) }));
  await open("/fleet/gpu-07");
  await until(() => button("Create an enrolment token") !== undefined);
  expect(labelled("Retire gpu-07")).toBeNull();
  await click(button("Create an enrolment token"));
  await shows("gpt_secret");
  await click(button("I have copied it"));
  await until(() => !text().includes("gpt_secret"));
});

test("a suspended object is resumed, and has file and line", async () => {
  const calls = serve(routes("operator", { "POST /api/v1/admin/desired/Node/gpu-07/resume": () => ({ body: desired }) }));
  await open("/fleet/gpu-07");
  await shows("by user:kim: vendor");
  expect(text()).toContain("nodes.cue");
  expect(labelled("Suspend gpu-07")).toBeNull();
  await opens("Resume gpu-07");
  await click(confirmButton());
  await shows("gpu-07 is resumed.");
  expect(written(calls)).toHaveLength(1);
});

test("the object of a drift is suspended until a time", async () => {
  const entry = (id: string, kind: string, name: string) => ({ id, kind, name, object_id: "o", field: "agent", desired: "2", observed: "1", status: "open", policy: "heal", owner: "platform", cause: "c", opened_at: at, observed_at: at, version: 1, ...times });
  const calls = serve(routes("operator", {
    "GET /api/v3/platform/drift": () => ({ body: { drift: ok({ items: [entry("d1", "Node", "gpu-07"), entry("d2", "Allocation", "first")] }), sources: none } }),
    "POST /api/v1/admin/desired/Node/gpu-07/suspend": () => ({ body: desired }),
  }));
  await open("/drift");
  await opens("Suspend gpu-07");
  const end = localOf(Date.now() + 7_200_000);
  await enter("Ends", end);
  await enter("Reason", "vendor visit");
  await click(confirmButton());
  await shows("gpu-07 is suspended.");
  expect(await written(calls)[0]?.json()).toEqual({ reason: "vendor visit", until: new Date(end).toISOString() });
});

test("a fault report is confirmed with a reason, and the report names what follows", async () => {
  const calls = serve(routes("operator", { "POST /api/v1/admin/fault-reports/f1/decide": () => ({ body: fault }) }));
  await open("/fleet");
  await opens("Confirm the report of gpu-07");
  expect(document.querySelector('[role="dialog"]')?.textContent).toContain("are credited");
  await enter("Reason", "reproduced");
  await click(confirmButton());
  await shows("The fault is confirmed.");
  expect(await written(calls)[0]?.json()).toEqual({ confirmed: true, reason: "reproduced" });
});

test("an open breaker is cleared with a reason", async () => {
  const calls = serve(routes("operator", { "POST /api/v1/admin/breaker/clear": () => ({ body: {} }) }));
  await open("/ops");
  await opens("Clear the breaker");
  await enter("Reason", "power is back");
  await click(confirmButton());
  await shows("The breaker is cleared.");
  expect(await written(calls)[0]?.json()).toEqual({ reason: "power is back" });
  expect(document.querySelector('a[href="/portal/runbooks/mass-action-breaker"]')).not.toBeNull();
});

test("an administrator declares a node", async () => {
  const calls = serve(routes("admin", { "POST /api/v1/admin/nodes": () => ({ status: 201, body: desired }) }));
  const router = await open("/fleet");
  await until(() => button("Declare the node") !== undefined);
  expect(button("Declare the node")?.disabled).toBe(true);
  for (const [label, value] of [["Name of the node", "gpu-08"], ["SKU of the node", "h100"], ["Region of the node", "eu-1"]] as const) await enter(label, value);
  await click(button("Declare the node"));
  await until(() => router.state.location.pathname.endsWith("/fleet/gpu-08"));
  expect(await written(calls)[0]?.json()).toEqual({ name: "gpu-08", sku: "h100", region: "eu-1", gpus: 8 });
});
