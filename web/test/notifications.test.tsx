import { expect, test } from "vitest";
import { asked, labelled, open, shows, text, written } from "./operator";
import { button, click, until } from "./render";
import { problem, serve } from "./server";

const at = "2026-01-05T09:00:00Z";
const one = (id: string, more: object = {}) => ({
  id, urn: `u:${id}`, kind: "provision_active", severity: "info", resource_urn: "core42:aicloud:-:t1:p1:allocation:a1", title: "Allocation is active", message: "It costs <b>EUR 2.00</b> per hour.", count: 1, created_at: at, updated_at: at, ...more,
});
const items = [one("n1", { count: 3 }), one("n2", { severity: "critical", kind: "balance_depleted", resource_urn: "core42:aicloud:-:t1:-:tenant:t1", title: "Balance is depleted", read_at: at })];
const routes = (more: Record<string, () => object> = {}) => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "ada@x", name: "Ada", role: "user" }, tenant: { id: "t1", name: "acme", role: "owner" }, projects: [] } }),
  "GET /api/v1/projects": () => ({ body: { items: [] } }),
  "GET /api/v1/notifications": () => ({ body: { items } }),
  ...more,
});

test("a notification names its urgency, its events and its object, as text", async () => {
  serve(routes());
  await open("/notifications");
  await shows("It costs <b>EUR 2.00</b> per hour.");
  expect(document.querySelector("table b")).toBeNull();
  const rows = [...document.querySelectorAll("tbody tr")].map((row) => row.textContent ?? "");
  expect(rows[0]).toContain("Information");
  expect(rows[0]).toContain("3");
  expect(rows[1]).toContain("Critical");
  expect([...document.querySelectorAll("tbody a")].map((link) => link.getAttribute("href"))).toEqual(["/portal/allocations/a1", "/portal/billing"]);
});

test("the server filters unread notifications", async () => {
  const calls = serve(routes());
  await open("/notifications?state=unread");
  await shows("Balance is depleted");
  expect(asked(calls, "/api/v1/notifications")[0]?.get("unread")).toBe("true");
});

test("one notification or all are marked as read, and the list is read again", async () => {
  const calls = serve(routes({ "POST /api/v1/notifications/read": () => ({ status: 204 }) }));
  await open("/notifications");
  await shows("Allocation is active");
  await click(labelled("Mark as read: Allocation is active"));
  await shows("The notification is marked as read.");
  expect(await written(calls)[0]?.json()).toEqual({ notification_ids: ["n1"] });
  await until(() => asked(calls, "/api/v1/notifications").length === 2);
  await click(button("Mark all as read"));
  await shows("All notifications are marked as read.");
  expect(await written(calls)[1]?.json()).toEqual({});
});

test("a rejected mark shows the error beside its button", async () => {
  serve(routes({ "POST /api/v1/notifications/read": () => problem(404, "not_found") }));
  await open("/notifications");
  await shows("Allocation is active");
  await click(labelled("Mark as read: Allocation is active"));
  await shows("message of not_found");
  expect(text()).toContain("Balance is depleted");
});

test("the message of the platform is a text on every screen, until a response has none", async () => {
  let header: string | undefined = encodeURIComponent("Maintenance <b>on Friday</b> {0}");
  serve(routes({ "GET /api/v1/notifications": () => ({ body: { items }, headers: header === undefined ? {} : { "X-Platform-Notice": header } }), "POST /api/v1/notifications/read": () => ({ status: 204 }) }));
  await open("/notifications");
  await shows("Notice: Maintenance <b>on Friday</b> {0}");
  expect(document.querySelector("p b")).toBeNull();
  header = undefined;
  await click(button("Mark all as read"));
  await until(() => !text().includes("Maintenance"));
});

test("a message that cannot be decoded is none", async () => {
  serve(routes({ "GET /api/v1/notifications": () => ({ body: { items }, headers: { "X-Platform-Notice": "100%" } }) }));
  await open("/notifications");
  await shows("Allocation is active");
  expect(text()).not.toContain("Notice:");
});
