import { RouterProvider, createMemoryHistory } from "@tanstack/react-router";
import { expect, test, vi } from "vitest";
import { selectProject } from "../src/api/project";
import { newRouter } from "../src/routes/router";
import { outcomeOf } from "../src/screens/billing/outcome";
import { button, click, enter, pause, render, until } from "./render";
import { type Handler, type Reply, problem, serve } from "./server";

const open = (path: string) => render(<RouterProvider router={newRouter(createMemoryHistory({ initialEntries: [`/portal${path}`] })) as never} />);
const ok = (data: object) => ({ status: "ok", operation: "o", data });
const none = ok({ items: [] });
const money = (amount_minor: number) => ({ amount_minor, currency: "EUR" });
const times = { created_at: "2026-01-05T09:00:00Z", updated_at: "x", urn: "urn:m" };
const mandate = { id: "m", status: "active", currency: "EUR", threshold_minor: 2_000, amount_minor: 5_000, monthly_cap_minor: 20_000, charged_this_month_minor: 5_000, failures: 0, confirmed_at: "2026-01-05T09:05:00Z", ...times };
const payment = { id: "s", amount: money(5_000), status: "initiated", url: "https://pay.example/1", expires_at: "x", ...times };

const overview = (auto: object[], payments: object[] = []) => ({
  balance: ok({ amount_minor: 100, currency: "EUR", burn_per_hour_minor: 0 }),
  usage: ok({ by: "day", from: "", to: "", items: [] }),
  limits: ok({ currency: "EUR", effective_hourly_spend_minor: 0, effective_monthly_budget_minor: 0, committed_per_hour_minor: 0, spent_this_month_minor: 0, hourly_spend_minor: 0, monthly_budget_minor: 0, version: "1" }),
  ledger: none,
  statements: none,
  payments: ok({ items: payments }),
  auto_topups: ok({ items: auto }),
});

const routes = (role: string, auto: object[], more: Record<string, Handler> = {}): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "u", email: "dev@x", name: "Dev" }, tenant: { id: "t", name: "t", role } } }),
  "GET /api/v1/projects": () => ({ body: { items: [] } }),
  "GET /api/v3/billing/overview": () => ({ body: overview(auto) }),
  "*": () => ({ body: { items: [] } }),
  ...more,
});

const shows = (text: string) => until(() => document.body.textContent?.includes(text) === true);
const written = (calls: Request[]) => calls.filter(({ method }) => method !== "GET");

test("the owner confirms the amounts of a stored card", async () => {
  const calls = serve(routes("owner", [{ ...mandate, status: "unconfirmed", threshold_minor: 0, amount_minor: 0, monthly_cap_minor: 0, confirmed_at: undefined }], { "PUT /api/v1/payments/auto-topups/m": () => ({ body: mandate }) }));
  await open("/billing");
  await shows("Not confirmed");
  expect(button("Confirm the amounts")?.disabled).toBe(true);
  await enter("Top up below, in EUR", "20");
  await enter("Amount of each charge in EUR", "50.00");
  await enter("At most per month in EUR", "0");
  expect(button("Confirm the amounts")?.disabled).toBe(true);
  await enter("At most per month in EUR", "200");
  await click(button("Confirm the amounts"));
  await shows("The automatic top-up is active.");
  expect(await written(calls)[0]?.json()).toEqual({ threshold_minor: 2_000, amount_minor: 5_000, monthly_cap_minor: 20_000, currency: "EUR" });
});

test("the file of the usage has the selected project", async () => {
  selectProject("p1");
  const blobs: Blob[] = [];
  const names: string[] = [];
  vi.spyOn(URL, "createObjectURL").mockImplementation((blob) => `blob:${blobs.push(blob as Blob)}`);
  vi.spyOn(HTMLAnchorElement.prototype, "click").mockImplementation(function (this: HTMLAnchorElement) {
    names.push(`${this.download} ${this.href}`);
  });
  const replies: Reply[] = [problem(403, "permission_denied"), { body: "interval_id" }];
  const calls = serve(routes("owner", [], { "GET /api/v1/projects": () => ({ body: { items: [{ id: "p1", name: "a", role: "viewer" }] } }), "GET /api/v1/billing/usage/csv": () => replies.shift()! }));
  await open("/billing");
  await until(() => button("Download as CSV") !== undefined);
  await click(button("Download as CSV"));
  await shows("message of permission_denied");
  expect(blobs).toEqual([]);
  await click(button("Download as CSV"));
  await until(() => names.length === 1);
  expect(names).toEqual(["usage.csv blob:1"]);
  expect(await blobs[0]?.text()).toContain("interval_id");
  const sent = calls.filter(({ url }) => url.endsWith("/usage/csv"));
  expect(sent.map(({ headers }) => headers.get("X-Project-ID"))).toEqual(["p1", "p1"]);
});

test("a card that is not stored has no amounts to confirm, and what has ended is not ended again", async () => {
  serve(routes("owner", [{ ...mandate, status: "pending", confirmed_at: undefined, monthly_cap_minor: 12_300 }, { ...mandate, id: "n", status: "ended" }]));
  await open("/billing");
  await shows("1 ended automatic top-up");
  expect(button("Confirm the amounts")).toBeUndefined();
  expect(document.body.textContent).not.toContain("€123.00");
  expect(document.querySelectorAll('[aria-label="End Automatic top-ups"]')).toHaveLength(1);
});

test("a billing user stores a card and ends an automatic top-up, but does not confirm amounts", async () => {
  const assign = vi.spyOn(location, "assign").mockImplementation(() => {});
  const calls = serve(
    routes("billing", [{ ...mandate, status: "paused", reason: "declined thrice", failures: 3 }], {
      "POST /api/v1/payments/auto-topups": () => ({ status: 201, body: { ...mandate, status: "pending", url: "https://pay.example/setup" } }),
      "DELETE /api/v1/payments/auto-topups/m": () => ({ status: 204 }),
    }),
  );
  await open("/billing");
  await shows("declined thrice");
  await shows("3 declined charges");
  expect(button("Confirm the amounts")).toBeUndefined();
  await click(button("Store another card"));
  await until(() => assign.mock.calls.length === 1);
  expect(assign).toHaveBeenCalledWith("https://pay.example/setup");
  await click(document.querySelector('[aria-label="End Automatic top-ups"]'));
  await until(() => document.querySelector('[role="dialog"]') !== null);
  await click(document.querySelector('[role="dialog"] button[type="submit"]'));
  await shows("The automatic top-up has ended.");
  expect(written(calls).map(({ method }) => method)).toEqual(["POST", "DELETE"]);
});

test("the page that stores a card is opened by a web address only", async () => {
  const assign = vi.spyOn(location, "assign").mockImplementation(() => {});
  serve(routes("owner", [], { "POST /api/v1/payments/auto-topups": () => ({ status: 201, body: { ...mandate, url: "javascript:alert(1)" } }) }));
  await open("/billing");
  await until(() => button("Store a card") !== undefined);
  await click(button("Store a card"));
  await shows("has an address that this portal does not open");
  expect(assign).not.toHaveBeenCalled();
});

test("the list of refunds shows the error of a failed one", async () => {
  const refund = { id: "r", tenant_id: "t", kind: "charge", route: "card", amount: money(500), reason: "node failed", status: "failed", failure: "card_expired", transfer_id: "x", requested_by: "user:u", ...times };
  serve(routes("owner", [], { "GET /api/v1/billing/refunds": () => ({ body: { items: [refund] } }) }));
  await open("/billing");
  await shows("Failed: card_expired");
  await shows("Card");
});

test("receipts are offered after the first payment", async () => {
  const assign = vi.spyOn(location, "assign").mockImplementation(() => {});
  serve(routes("owner", [], { "GET /api/v3/billing/overview": () => ({ body: overview([], [payment]) }), "POST /api/v1/payments/customer-portal-session": () => ({ status: 201, body: { url: "https://portal.example/p" } }) }));
  await open("/billing");
  await until(() => button("Receipts") !== undefined);
  await click(button("Receipts"));
  await until(() => assign.mock.calls.length === 1);
  const link = [...document.querySelectorAll("a")].find((each) => each.getAttribute("href") === "/portal/payments/s");
  expect(link?.textContent).toBe("Open");
});

test("only an open payment counts as cancelled", () => {
  expect(["initiated", "checkout_completed", "credited", "failed_reconcile", "expired", "levitating"].map((status) => outcomeOf(status, true))).toEqual(["cancelled", "paid", "credited", "mismatch", "expired", undefined]);
  expect(outcomeOf("initiated", false)).toBe("pending");
});

test("the outcome of a payment is read until it is final", async () => {
  let status = "initiated";
  const calls = serve(routes("owner", [], { "GET /api/v1/payments/sessions/s": () => ({ body: { ...payment, status } }) }));
  await open("/payments/s");
  await shows("The payment of €50.00 is not complete yet.");
  expect(document.querySelector('a[href="https://pay.example/1"]')).not.toBeNull();
  status = "credited";
  await pause(2_000);
  await until(() => document.querySelector('[data-outcome="credited"]') !== null);
  expect(document.body.textContent).toContain("The balance has grown by €50.00.");
  expect(document.querySelector('a[href="https://pay.example/1"]')).toBeNull();
  expect(calls.filter(({ url }) => url.includes("/sessions/s")).length).toBeGreaterThan(1);
});

test("a cancelled payment is no success, and a payment of another tenant is an error", async () => {
  serve(routes("owner", [], { "GET /api/v1/payments/sessions/s": () => ({ body: payment }) }));
  await open("/payments/s?cancelled");
  await shows("The payment of €50.00 is cancelled.");
  serve(routes("owner", [], { "GET /api/v1/payments/sessions/x": () => problem(404, "not_found") }));
  await open("/payments/x");
  await shows("not_found");
});

test("files are in the usage, the ledger and the statements", async () => {
  const usage = ok({ by: "day", from: "", to: "", items: [{ key: "2026-01-05", name: "", seconds: 0, gpu_seconds: 0, gib_seconds: 9_000, gross: money(7), credited: money(0), cost: money(7) }] });
  const ledger = ok({ items: [{ id: 1, occurred_at: "2026-01-05T09:00:00Z", transfer_id: "x", kind: "storage", reference: "1767603900 p9", amount_minor: -7, currency: "EUR", ...times }] });
  const statements = ok({ items: [{ month: "2026-01", from: "", to: "", final: false, currency: "EUR", opening_minor: 0, topups_minor: 0, usage_minor: 0, storage_minor: -71, credits_minor: 0, refunds_minor: 0, adjustments_minor: 0, closing_minor: -71 }] });
  serve(routes("owner", [], {
    "GET /api/v1/projects": () => ({ body: { items: [{ id: "p9", name: "speech", role: "admin" }] } }),
    "GET /api/v3/billing/overview": () => ({ body: { ...overview([]), usage, ledger, statements } }),
  }));
  await open("/billing");
  await shows("Files of speech");
  expect(document.body.textContent).toContain("2.5");
  expect(document.body.textContent).toContain("-€0.71");
});
