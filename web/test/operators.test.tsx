import { RouterProvider, createMemoryHistory } from "@tanstack/react-router";
import { expect, test } from "vitest";
import { localOf } from "../src/components/system/when";
import { newRouter } from "../src/routes/router";
import { addressOf } from "../src/screens/change/place";
import { mayDo } from "../src/session/may";
import { button, click, enter, render, until } from "./render";
import { type Handler, problem, serve } from "./server";

const open = async (path: string) => {
  const router = newRouter(createMemoryHistory({ initialEntries: [`/portal${path}`] }));
  await render(<RouterProvider router={router as never} />);
  return router;
};
const ok = (data: object) => ({ status: "ok", operation: "o", data });
const degraded = { status: "degraded", operation: "o", reason: "timeout", message: "not read within 2s", runbook_id: "section-degraded" };
const times = { created_at: "2026-01-05T09:00:00Z", updated_at: "2026-01-05T09:00:00Z", urn: "u" };
const none = ok({ items: [] });

const drift = { id: "d1", kind: "Node", name: "gpu-07", object_id: "n", field: "agent", desired: "1.2.0", observed: "1.1.0", status: "open", policy: "heal", owner: "platform", cause: "changed on the node", opened_at: "2026-01-05T09:00:00Z", observed_at: "x", cost_per_hour: { amount_minor: 35, currency: "EUR" }, version: 1, ...times };
const ofAllocation = { ...drift, id: "d2", kind: "Allocation", name: "first", cost_per_hour: undefined };

const source = { name: "fleet", repository: "https://git.example/fleet.git", ref: "main", forge: { kind: "github", project: "acme/fleet", url: "https://git.example" }, conditions: [], declared_by: "server", dirs: [], verify: { required: false, signers: 0 }, version: 1, ...times };
const plan = {
  id: "c1", hash: "3f0a", status: "proposed", origin: "change", actions: 1, blocked: 0, source: "fleet", commit: "9f3c2d1e", author: "ada@x", steps: [], ...times,
  change: {
    source: "fleet", repository: "r", commit: "9f3c2d1e", base: "b", objects: 12, creates: 0, changes: 1, deletes: 0, adopts: 0, summary: "s", approval_reasons: [{ reason: "sensitive", message: "a price changes", objects: ["SKU/h100"] }],
    steps: [{ action: "change", kind: "SKU", name: "h100", uid: "s", generation: 3, place: { owner: "git", path: "skus.cue", line: 12 }, fields: [{ path: "/spec/price/amountMinor", from: "249", to: "259" }] }],
    blast_radius: { tenants: 1, projects: 1, allocations: 3, nodes: 0, agents: 0, drains: [], over_caps: [], names: ["acme"] },
    money: [{ currency: "EUR", capacity_before_minor: 19_920, capacity_after_minor: 20_720, burn_before_minor: 747, burn_after_minor: 777, tenants: [{ tenant_id: "t", name: "acme", burn_before_minor: 747, burn_after_minor: 777, balance_minor: 25_000 }] }],
    findings: [{ path: "skus.cue", line: 14, column: 3, message: "the price has no currency" }],
  },
};
const node = {
  id: "n", name: "gpu-07", sku: "h100", region: "eu-1", lifecycle: "active", health: "degraded", reachability: "stale", occupancy: "partial", cordoned: false, free: 5, slots: 8, quarantined: 1, message: "", onboarding: "manual", agent_version: "1.2.0", ...times,
  holds: [{ id: "h", kind: "cordon", cause: "operator", owner: "user:kim", owner_name: "Kim", reason: "new fans", ...times }],
  gpus: [{ uuid: "g", index: 0, model: "H100", memory_mib: 81_559, health: "healthy", reasons: [], present: true, slot_status: "claimed", slot_reason: "", allocation_name: "calm-otter" }],
  tasks: [{ id: "k", type: "ensure_access", status: "running", attempt: 2, fence: 1, ...times }],
};
const allocation = { id: "a", name: "calm-otter", status: "active", gpus: 1, ...times };

const routes = (role: string, more: Record<string, Handler> = {}): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "dev@x", name: "Dev", role }, tenant: { id: "t", name: "t", role: "owner" } } }),
  "GET /api/v1/projects": () => ({ body: { items: [{ id: "p", name: "p", role: "admin" }] } }),
  "GET /api/v3/platform/drift": () => ({ body: { drift: ok({ items: [drift, ofAllocation] }), sources: none } }),
  "GET /api/v3/platform/changes": () => ({ body: { plans: ok({ items: [plan] }), revisions: none, sources: none } }),
  "GET /api/v3/platform/changes/c1": () => ({ body: { plan: ok(plan), sources: ok({ items: [source] }) } }),
  "GET /api/v3/platform/fleet": () => ({ body: { nodes: ok({ items: [node] }), capacity: none, faults: none } }),
  "GET /api/v3/platform/nodes/gpu-07": () => ({ body: { node: ok(node), allocations: ok({ items: [allocation] }), topology: none, trace: ok({ object: {}, steps: [] }) } }),
  "GET /api/v3/platform/ops": () => ({
    body: { overview: ok({ panels: [{ name: "capacity", status: "degraded", message: "no free H100", runbook_id: "capacity-low", values: { free_slots: 0 } }] }), health: ok({ status: "ok", checks: [] }), drift: ok({ items: [drift] }), plans: ok({ items: [plan] }), faults: none },
  }),
  ...more,
});

const text = () => document.body.textContent ?? "";
const shows = (part: string) => until(() => text().includes(part));
const labelled = (label: string) => document.querySelector(`[aria-label="${label}"]`);
const confirmButton = () => document.querySelector<HTMLButtonElement>('[role="dialog"] button[type="submit"]');
const written = (calls: Request[]) => calls.filter(({ method }) => method !== "GET");
const asked = (calls: Request[], path: string) => calls.filter(({ url }) => new URL(url).pathname === path).map(({ url }) => new URL(url).searchParams);
const opens = async (label: string) => {
  await until(() => labelled(label) !== null);
  await click(labelled(label));
  await until(() => confirmButton() !== null);
};

test("the role in the platform allows the operations of operators, and none of a tenant", () => {
  const operator = { tenant: "", projects: [], platform: "operator" };
  expect(mayDo("approvePlan", operator)).toBe(true);
  expect(mayDo("createAllocation", { ...operator, platform: "admin" })).toBe(false);
  expect(mayDo("approvePlan", { tenant: "owner", projects: ["admin"], platform: "user" })).toBe(false);
  expect(mayDo("approvePlan", { tenant: "owner", projects: ["admin"] })).toBe(false);
});

const entries = () => [...document.querySelectorAll("header nav a")].map(({ textContent }) => textContent);

test("the navigation hides the screens of operators from others", async () => {
  serve(routes("user"));
  await open("/drift");
  await until(() => entries().length > 0);
  for (const name of ["Operations", "Fleet", "Changes", "Drift"]) expect(entries()).not.toContain(name);
});

test("the navigation has the screens of operators for operators", async () => {
  serve(routes("operator"));
  await open("/drift");
  await until(() => entries().length > 0);
  expect(entries()).toEqual(expect.arrayContaining(["Operations", "Fleet", "Changes", "Drift"]));
});

test("drift shows what is open, and the address has the filters", async () => {
  const calls = serve(routes("operator"));
  const router = await open("/drift");
  await shows("€0.35");
  expect(text()).toContain("1.2.0");
  expect(asked(calls, "/api/v3/platform/drift")[0]?.get("status")).toBe("open");
  await enter("Kind", "Node");
  await until(() => router.state.location.searchStr === "?kind=Node");
  await enter("State", "all");
  await until(() => asked(calls, "/api/v3/platform/drift").at(-1)?.get("kind") === "Node" && asked(calls, "/api/v3/platform/drift").at(-1)?.get("status") === null);
});

test("the fleet shows the ring of the last update of an agent", async () => {
  const update = { version: "1.3.0", previous: "1.2.0", ring: 2, status: "requested", message: "", requested_at: "x", updated_at: "x" };
  serve(routes("operator", { "GET /api/v3/platform/fleet": () => ({ body: { nodes: ok({ items: [{ ...node, agent_updates: [update] }, { ...node, id: "m", name: "gpu-08" }] }), capacity: none, faults: none } }) }));
  await open("/fleet");
  await shows("2: 1.3.0, Requested");
});

test("drift of an allocation is healed and suspended in the project of the allocation", async () => {
  const calls = serve(
    routes("operator", {
      "GET /api/v1/admin/allocations/n": () => ({ body: { ...allocation, project_id: "p7" } }),
      "POST /api/v1/admin/desired/Allocation/first/reconcile": () => ({ status: 202, body: {} }),
      "POST /api/v1/admin/desired/Allocation/first/suspend": () => ({ status: 202, body: {} }),
    }),
  );
  await open("/drift");
  await opens("Heal first");
  await enter("Reason", "unknown key");
  await click(confirmButton());
  await shows("first is being healed.");
  await opens("Suspend first");
  await enter("Reason", "unknown key");
  await click(confirmButton());
  await shows("first is suspended.");
  expect(written(calls).map(({ url }) => new URL(url).searchParams.get("scope"))).toEqual(["p7", "p7"]);
  expect(document.querySelector('a[href="/portal/admin/allocations/n"]')?.textContent).toContain("first");
});

test("of two dialogs with the same name, the one that needed a sign-in opens again", async () => {
  const replies = [problem(403, "step_up_required"), { body: drift }];
  const calls = serve(
    routes("operator", {
      "GET /api/v3/platform/drift": () => ({ body: { drift: ok({ items: [drift, { ...drift, id: "d9", field: "kernel" }] }), sources: none } }),
      "POST /api/v1/admin/drift/d9/ignore": () => replies.shift()!,
    }),
  );
  await open("/drift");
  await until(() => labelled("Ignore gpu-07") !== null);
  await click(document.querySelectorAll('[aria-label="Ignore gpu-07"]')[1]);
  await until(() => confirmButton() !== null);
  await enter("Reason", "vendor visit");
  await click(confirmButton());
  await shows("message of step_up_required");
  document.body.replaceChildren();
  await open("/drift");
  await until(() => confirmButton() !== null);
  expect(document.querySelectorAll('[role="dialog"]')).toHaveLength(1);
  await click(confirmButton());
  await until(() => written(calls).length === 2);
  expect(await written(calls)[1]?.json()).toMatchObject({ reason: "vendor visit" });
});

test("a drift is healed with a reason", async () => {
  const calls = serve(routes("operator", { "POST /api/v1/admin/desired/Node/gpu-07/reconcile": () => ({ status: 202, body: {} }) }));
  await open("/drift");
  await opens("Heal gpu-07");
  expect(confirmButton()?.disabled).toBe(true);
  await enter("Reason", "cable replaced");
  await click(confirmButton());
  await shows("gpu-07 is being healed.");
  expect(await written(calls)[0]?.json()).toEqual({ reason: "cable replaced" });
  expect(new URL(written(calls)[0]!.url).search).toBe("");
  expect(written(calls)[0]?.headers.get("X-Idempotency-Key")).toBeTruthy();
});

test("a drift is ignored until a time of the next 90 days", async () => {
  const calls = serve(routes("operator", { "POST /api/v1/admin/drift/d2/ignore": () => problem(409, "conflict") }));
  await open("/drift");
  await opens("Ignore first");
  await enter("Reason", "vendor visit");
  const local = localOf(Date.now() + 2 * 86_400_000);
  for (const [time, disabled] of [[localOf(Date.now() - 120_000), true], [localOf(Date.now() + 91 * 86_400_000), true], ["", true], [local, false]] as const) {
    await enter("Ignore until", time);
    expect(confirmButton()?.disabled).toBe(disabled);
  }
  await click(confirmButton());
  await shows("message of conflict");
  expect(await written(calls)[0]?.json()).toEqual({ reason: "vendor visit", until: new Date(local).toISOString() });
});

test("a page of drift that fails leaves the rows before it", async () => {
  const page = (request: Request) => (new URL(request.url).searchParams.has("cursor") ? degraded : ok({ items: [drift], next_cursor: "2" }));
  serve(routes("operator", { "GET /api/v3/platform/drift": (request) => ({ body: { drift: page(request), sources: none } }) }));
  await open("/drift");
  await shows("Load more");
  await click(button("Load more"));
  await shows("not read within 2s");
  expect(text()).toContain("gpu-07");
});

test("a change shows what it reaches, costs and alters", async () => {
  serve(routes("operator"));
  await open("/changes/c1");
  await shows("/spec/price/amountMinor");
  for (const part of ["249", "259", "1 (acme)", "€7.47", "€7.77", "€250.00", "a price changes (SKU/h100)", "the price has no currency"]) expect(text()).toContain(part);
  expect(document.querySelector<HTMLAnchorElement>('a[href$="#L14"]')?.href).toBe("https://git.example/acme/fleet/blob/9f3c2d1e/skus.cue#L14");
});

test("a forge has no address that is a script", () => {
  const at = (kind: string, url: string) => addressOf({ path: "a b/c.cue", line: 2, commit: "9f", source: { ...source, forge: { kind, project: "acme/fleet", url } } as never });
  expect(at("gitlab", "https://git.example/")).toBe("https://git.example/acme/fleet/-/blob/9f/a%20b/c.cue#L2");
  expect(at("gitea", "https://git.example")).toBe("https://git.example/acme/fleet/src/commit/9f/a%20b/c.cue#L2");
  expect([at("github", "javascript:alert(1)//"), at("newer", "https://git.example")]).toEqual([undefined, undefined]);
});

test("an approval names the plan that was read", async () => {
  const calls = serve(routes("operator", { "POST /api/v1/admin/plans/c1/approve": () => ({ body: plan }) }));
  await open("/changes/c1");
  await opens("Approve the plan");
  await click(confirmButton());
  await shows("Your approval is stored.");
  expect(await written(calls)[0]?.json()).toEqual({ hash: "3f0a", reason: "" });
});

test("a stale plan shows what has moved, and a step-up leads to the sign-in", async () => {
  const replies = [problem(409, "plan_stale", { moved: ["Node/gpu-07: generation 3, was 2"] }), problem(403, "step_up_required")];
  serve(routes("operator", { "POST /api/v1/admin/plans/c1/approve": () => replies.shift()! }));
  await open("/changes/c1");
  await opens("Approve the plan");
  await click(confirmButton());
  await shows("Node/gpu-07: generation 3, was 2");
  await click(confirmButton());
  await shows("message of step_up_required");
  expect(document.querySelector('[role="dialog"] a[href^="/sign-in"][href*="step_up=true"]')).not.toBeNull();
});

test("a rejection has a reason", async () => {
  const calls = serve(routes("operator", { "POST /api/v1/admin/plans/c1/reject": () => ({ body: plan }) }));
  await open("/changes/c1");
  await opens("Reject the plan");
  expect(confirmButton()?.disabled).toBe(true);
  await enter("Reason", "not this week");
  await click(confirmButton());
  await shows("The plan is rejected.");
  expect(await written(calls)[0]?.json()).toEqual({ hash: "3f0a", reason: "not this week" });
});

test("a decided plan has no decision", async () => {
  serve(routes("operator", { "GET /api/v3/platform/changes/c1": () => ({ body: { plan: ok({ ...plan, status: "applied" }), sources: none } }) }));
  await open("/changes/c1");
  await shows("Applied");
  expect(labelled("Approve the plan")).toBeNull();
});

test("who may not decide is offered no decision", async () => {
  serve(routes("user"));
  await open("/changes/c1");
  await shows("/spec/price/amountMinor");
  expect(labelled("Approve the plan")).toBeNull();
});

test("the fleet shows four axes as text, and sends the filters", async () => {
  const calls = serve(routes("operator"));
  const router = await open("/fleet?health=degraded&sort=-name");
  await shows("5 of 8, 1 quarantined");
  const row = document.querySelector('[aria-label="Nodes"] tbody tr')?.textContent;
  for (const part of ["gpu-07", "eu-1", "Active", "Degraded", "Stale", "Partly occupied", "1.2.0"]) expect(row).toContain(part);
  expect(Object.fromEntries(asked(calls, "/api/v3/platform/fleet")[0] ?? [])).toEqual({ health: "degraded", sort: "-name", limit: "100" });
  await enter("Part of the name", "07");
  await click(button("Filter"));
  await until(() => router.state.location.searchStr.includes("q="));
});

test("a drain names the node, its allocations, a deadline and a reason", async () => {
  const calls = serve(routes("operator", { "POST /api/v1/admin/nodes/gpu-07/drain": () => ({ status: 202, body: node }) }));
  await open("/fleet/gpu-07");
  await opens("Drain gpu-07");
  const dialog = () => document.querySelector('[role="dialog"]')?.textContent ?? "";
  expect(dialog()).toContain("1 allocation is on it.");
  expect(dialog()).toContain("calm-otter");
  await enter("Reason", "board swap");
  await enter("Type gpu-07", "gpu-07");
  await enter("Deadline", localOf(Date.now() - 120_000));
  expect(confirmButton()?.disabled).toBe(true);
  const deadline = localOf(Date.now() + 7_200_000);
  await enter("Deadline", deadline);
  await click(confirmButton());
  await shows("gpu-07 is draining.");
  expect(await written(calls)[0]?.json()).toEqual({ reason: "board swap", deadline_at: new Date(deadline).toISOString() });
});

test("a node is cordoned and uncordoned", async () => {
  const calls = serve(routes("operator", { "POST /api/v1/admin/nodes/gpu-07/cordon": () => ({ body: node }), "POST /api/v1/admin/nodes/gpu-07/uncordon": () => ({ body: node }) }));
  await open("/fleet/gpu-07");
  await shows("new fans");
  await opens("Cordon gpu-07");
  await enter("Reason", "fans");
  await click(confirmButton());
  await shows("gpu-07 is cordoned.");
  await until(() => confirmButton() === null);
  await opens("Uncordon gpu-07");
  await click(confirmButton());
  await shows("Your cordons and drains of gpu-07 are removed.");
  expect(await Promise.all(written(calls).map((call) => call.json()))).toEqual([{ reason: "fans" }, {}]);
});

test("a node without a hold is not uncordoned, and a drain states that its allocations are unknown", async () => {
  serve(routes("operator", { "GET /api/v3/platform/nodes/gpu-07": () => ({ body: { node: ok({ ...node, holds: [] }), allocations: degraded, topology: none, trace: degraded } }) }));
  await open("/fleet/gpu-07");
  await until(() => labelled("Drain gpu-07") !== null);
  expect(labelled("Uncordon gpu-07")).toBeNull();
  await opens("Drain gpu-07");
  expect(document.querySelector('[role="dialog"]')?.textContent).toContain("cannot be shown now");
});

test("others than operators are offered no change of a node", async () => {
  serve(routes("user"));
  await open("/fleet/gpu-07");
  await shows("new fans");
  expect(labelled("Drain gpu-07")).toBeNull();
});

test("operations show what waits for an operator", async () => {
  serve(routes("operator"));
  await open("/ops");
  await shows("capacity-low");
  for (const part of ["Capacity", "free slots: 0", "no free H100", "3f0a", "agent", "There is no open fault report."]) expect(text()).toContain(part);
});
