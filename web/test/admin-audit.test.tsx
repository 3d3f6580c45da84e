import { expect, test } from "vitest";
import { localOf } from "../src/components/system/when";
import { asked, open, shows, text } from "./operator";
import { button, click, enter, until } from "./render";
import { problem, serve } from "./server";

const at = "2026-01-05T09:00:00Z";
const row = { id: "1", urn: "u", occurred_at: at, created_at: at, updated_at: at, actor: "user:kim", action: "project.update", target: "urn:p1", tenant_id: "t2", correlation_id: "c-7", client_address: "203.0.113.7", user_agent: "<script>", before: { name: "a", gone: 1 }, after: { name: "<img src=x>" } };
const routes = (list: () => object) => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "op@x", name: "Op", role: "admin" } } }),
  "GET /api/v1/admin/audit-logs": list,
});

test("audit rows show the changed fields as text, and the export has the filters", async () => {
  const calls = serve(routes(() => ({ body: { items: [row] } })));
  const local = localOf(Date.parse(at));
  const router = await open(`/admin/audit?actor=user:kim&from=${local}`);
  await shows('name: "a" → "<img src=x>"');
  expect(text()).toContain("gone: 1 → absent");
  expect(document.querySelector("table img, table script")).toBeNull();
  const sent = asked(calls, "/api/v1/admin/audit-logs")[0];
  expect([sent?.get("actor"), Date.parse(sent?.get("from") ?? "")]).toEqual(["user:kim", Date.parse(local)]);
  const link = new URL(document.querySelector<HTMLAnchorElement>("a[download]")?.href ?? "");
  expect(link.pathname).toBe("/api/v1/admin/audit-logs/export");
  expect(link.searchParams.get("from")).toBe(sent?.get("from"));
  await enter("Action", "project.");
  await click(button("Filter"));
  await until(() => router.state.location.searchStr.includes("action=project."));
  await click(button("Clear the filters"));
  await until(() => router.state.location.searchStr === "");
});

test("a time that was altered by hand reaches the server", async () => {
  const calls = serve(routes(() => problem(400, "invalid_request")));
  await open("/admin/audit?to=tomorrow");
  await shows("message of invalid_request");
  expect(asked(calls, "/api/v1/admin/audit-logs")[0]?.get("to")).toBe("tomorrow");
});
