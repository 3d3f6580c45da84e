import { expect, test } from "vitest";
import { asked, confirmButton, labelled, open, opens, shows, text } from "./operator";
import { click, enter, until } from "./render";
import { type Handler, problem, serve } from "./server";

const at = "2026-01-05T09:00:00Z";
const money = (amount_minor: number) => ({ amount_minor, currency: "EUR" });
const allocation = {
  id: "a1", urn: "urn:a1", project_id: "p1", user_id: "u1", name: "calm-otter", status: "release_failed", sku: "h100", gpus: 2, region: "eu-1", node_id: "n", node_name: "gpu-07", login: "otter", price: money(1_800), cost: money(4_200), labels: {}, version: 1,
  tenant_id: "t2", tenant_name: "<b>acme</b>", created_at: at, updated_at: at, status_at: at, conditions: [{ type: "NodeReporting", status: "false", reason: "stale", message: "no report", last_transition_time: at }],
};
const routes = (role: string, more: Record<string, Handler> = {}): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "op@x", name: "Op", role } } }),
  "GET /api/v1/admin/allocations": () => ({ body: { items: [allocation] } }),
  "GET /api/v1/admin/allocations/a1": () => ({ body: allocation }),
  "GET /api/v1/admin/desired/Allocation/calm-otter/trace": () => ({ body: { object: {}, steps: [{ stage: "task", occurred_at: at, state: "failed", message: "userdel exits with 8" }] } }),
  ...more,
});

test("the allocations of all tenants have the filters of the address, and the export has the same", async () => {
  const calls = serve(routes("operator"));
  const router = await open("/admin/allocations?status=active&node=gpu-07&older=24");
  await shows("<b>acme</b>");
  const sent = asked(calls, "/api/v1/admin/allocations")[0];
  expect([sent?.get("status"), sent?.get("node"), sent?.get("created_since")]).toEqual(["active", "gpu-07", null]);
  expect(Date.now() - Date.parse(sent?.get("created_before") ?? "")).toBeGreaterThan(86_390_000);
  const link = new URL(document.querySelector<HTMLAnchorElement>("a[download]")?.href ?? "");
  expect(link.pathname).toBe("/api/v1/admin/allocations/csv");
  expect([...link.searchParams.keys()].sort()).toEqual(["created_before", "node", "status"]);
  await enter("Requested since", "168");
  await until(() => router.state.location.searchStr.includes("newer="));
  expect(text()).toContain("gpuaas admin alloc list --status 'active' --node 'gpu-07' --before '24h' --since '168h'");
});

test("an age of the address that is no number reaches the server, which rejects it", async () => {
  const calls = serve(routes("operator", { "GET /api/v1/admin/allocations": () => problem(400, "invalid_request") }));
  await open("/admin/allocations?older=%3Cimg%3E");
  await shows("message of invalid_request");
  expect(asked(calls, "/api/v1/admin/allocations")[0]?.get("created_before")).toBe("<img>");
});

test("an operator sees an allocation of another tenant with its history, and is offered no force", async () => {
  const calls = serve(routes("operator"));
  await open("/admin/allocations/a1");
  await shows("userdel exits with 8");
  for (const part of ["<b>acme</b>", "gpu-07", "€42.00", "NodeReporting"]) expect(text()).toContain(part);
  expect(asked(calls, "/api/v1/admin/desired/Allocation/calm-otter/trace")[0]?.get("scope")).toBe("p1");
  expect(labelled("Force the release calm-otter")).toBeNull();
});

test("an administrator forces a release with the name, a reason and a recent sign-in", async () => {
  const replies = [problem(403, "step_up_required"), { status: 202, body: allocation }];
  const calls = serve(routes("admin", { "POST /api/v1/admin/allocations/a1/force-release": () => replies.shift()! }));
  await open("/admin/allocations/a1");
  await opens("Force the release calm-otter");
  expect(document.querySelector('[role="dialog"]')?.textContent).toContain("<b>acme</b> reads your reason");
  await enter("Type calm-otter", "calm-otter");
  expect(confirmButton()?.disabled).toBe(true);
  await enter("Type calm-otter", "");
  await enter("Reason", "the node is lost");
  expect(confirmButton()?.disabled).toBe(true);
  await enter("Type calm-otter", "calm-otter");
  await click(confirmButton());
  await until(() => document.querySelector('[role="dialog"] a[href*="step_up=true"]') !== null);
  await click(confirmButton());
  await shows("The release of calm-otter is forced.");
  const written = calls.filter(({ method }) => method === "POST");
  expect(await written[1]?.json()).toEqual({ reason: "the node is lost" });
  await until(() => asked(calls, "/api/v1/admin/allocations/a1").length > 1);
});

test("what has used no slot is not released by force", async () => {
  serve(routes("admin", { "GET /api/v1/admin/allocations/a1": () => ({ body: { ...allocation, status: "requested" } }) }));
  await open("/admin/allocations/a1");
  await shows("userdel exits with 8");
  expect(labelled("Force the release calm-otter")).toBeNull();
});

test("what has ended is not released by force", async () => {
  serve(routes("admin", { "GET /api/v1/admin/allocations/a1": () => ({ body: { ...allocation, status: "released" } }) }));
  await open("/admin/allocations/a1");
  await shows("Released");
  expect(labelled("Force the release calm-otter")).toBeNull();
  expect(document.body.textContent).not.toContain("userdel exits with 8"); // another allocation can have the name
});
