import { RouterProvider, createMemoryHistory } from "@tanstack/react-router";
import { expect, test } from "vitest";
import { majorOf, minorOf } from "../src/i18n/format";
import { newRouter } from "../src/routes/router";
import { button, click, enter, render, until } from "./render";
import { serve } from "./server";

const ok = (data: object) => ({ status: "ok", operation: "o", data });
const none = ok({ items: [] });
const limits = { currency: "EUR", version: "v4", hourly_spend_minor: 1_050, monthly_budget_minor: 0, effective_hourly_spend_minor: 1_050, effective_monthly_budget_minor: 0, committed_per_hour_minor: 0, spent_this_month_minor: 0 };

const routes = (role: string, changed: object = {}) => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "dev@x", name: "Dev" }, tenant: { id: "t", name: "t", role } } }),
  "GET /api/v1/projects": () => ({ body: { items: [{ id: "p", name: "p", role: "admin" }] } }),
  "GET /api/v3/billing/overview": () => ({
    body: { balance: ok({ amount_minor: 100, currency: "EUR", burn_per_hour_minor: 0 }), limits: ok({ ...limits, ...changed }), usage: ok({ by: "day", from: "", to: "", items: [] }), ledger: none, payments: none, statements: none, auto_topups: none },
  }),
});

const open = (path: string) => render(<RouterProvider router={newRouter(createMemoryHistory({ initialEntries: [`/portal${path}`] })) as never} />);
const shows = (text: string) => until(() => document.body.textContent?.includes(text) === true);

test("limits are set in the version on the screen, and nothing entered is no limit", async () => {
  const calls = serve({ ...routes("billing"), "PUT /api/v1/billing/limits": () => ({ body: limits }) });
  await open("/billing");
  await shows("Set the limits");
  await enter("Per hour in EUR", "12,5");
  await enter("Per month in EUR", "x");
  expect(button("Set the limits")?.disabled).toBe(true);
  await enter("Per month in EUR", "");
  await click(button("Set the limits"));
  await shows("The limits are set.");
  const put = calls.find(({ method }) => method === "PUT");
  expect(put?.headers.get("If-Match")).toBe('"v4"');
  expect(await put?.json()).toEqual({ currency: "EUR", hourly_spend_minor: 1_250, monthly_budget_minor: 0 });
});

test("a limit of Git names its place and has no field", async () => {
  const calls = serve({ ...routes("owner", { hourly_managed_by: "fleet.cue:12" }), "PUT /api/v1/billing/limits": () => ({ body: limits }) });
  const page = await open("/billing");
  await shows("Git sets it: fleet.cue:12");
  expect(page.textContent).not.toContain("Per hour in EUR");
  await click(button("Set the limits"));
  await shows("The limits are set.");
  expect(await calls.find(({ method }) => method === "PUT")?.json()).toEqual({ currency: "EUR", monthly_budget_minor: 0 });
});

test("an amount has the same text in a form as in a request", () => {
  for (const [minor, currency, text] of [[1_050, "EUR", "10.50"], [5, "EUR", "0.05"], [1_050, "JPY", "1050"]] as const) {
    expect(majorOf(minor, currency)).toBe(text);
    expect(minorOf(text, currency)).toBe(minor);
  }
});

test("the status is shown to every user, and its checks to operators", async () => {
  const health = { status: "degraded", checks: [] };
  const details = { status: "degraded", checks: [{ name: "database", status: "down", message: "no connection", started_at: "2026-01-05T09:00:00Z" }] };
  const model = { health: ok(health), capacity: ok({ items: [{ region: "eu-1", sku: "t4", free: 3, total: 8, nodes: 2 }] }) };
  const restricted = { status: "restricted", operation: "getHealthDetails", reason: "forbidden", message: "your role does not allow this" };
  serve({ ...routes("member"), "GET /api/v3/platform/status": () => ({ body: { ...model, details: restricted } }) });
  const page = await open("/status");
  await shows("Works in part");
  expect(page.textContent).toContain("eu-1");
  expect(page.textContent).not.toContain("Checks");
  expect(document.querySelector('[data-state="restricted"]')).toBeNull();
  document.body.replaceChildren();
  serve({ ...routes("member"), "GET /api/v3/platform/status": () => ({ body: { ...model, details: ok(details) } }) });
  await open("/status");
  await shows("no connection");
  await shows("Does not work");
});
