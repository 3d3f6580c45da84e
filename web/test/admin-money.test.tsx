import { act } from "react";
import { expect, test } from "vitest";
import { asked, confirmButton, labelled, open, opens, shows, text, written } from "./operator";
import { click, enter, until } from "./render";
import { type Handler, problem, serve } from "./server";

const at = "2026-01-05T09:00:00Z";
const times = { urn: "u", created_at: at, updated_at: at };
const money = (amount_minor: number) => ({ amount_minor, currency: "EUR" });
const user = { id: "u2", email: "ada@acme.example", name: "Ada", role: "user", role_from: "platform", issuer: "", disabled: false, version: 7, balance: money(5_000), active_allocations: 0, ...times };
const topup = { id: "p1", tenant_id: "t2", principal_id: "u2", amount: money(5_000), status: "failed_reconcile", reason: "<b>EUR 49.00</b>", livemode: false, expires_at: at, status_at: at, ...times };
const refund = { id: "r1", tenant_id: "t2", kind: "charge", route: "ledger", amount: money(900), reason: "fault", status: "succeeded", transfer_id: "x", requested_by: "user:kim", ...times };
const dispute = { id: "d1", tenant_id: "t2", payment_session_id: "p1", amount: money(700), reason: "fraudulent", stage: "inquiry", stage_at: at, ...times };
const routes = (role: string, more: Record<string, Handler> = {}): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "op@x", name: "Op", role } } }),
  "GET /api/v1/admin/payments/sessions": () => ({ body: { items: [topup, { ...topup, id: "p2", status: "credited" }] } }),
  "GET /api/v1/admin/refunds": () => ({ body: { items: [refund] } }),
  "GET /api/v1/admin/disputes": () => ({ body: { items: [dispute] } }),
  "GET /api/v1/admin/users/u2": () => ({ body: user }),
  ...more,
});

test("payments show what an operator should check, and filter all lists by tenant", async () => {
  const calls = serve(routes("billing_operator"));
  await open("/admin/payments?status=stuck&tenant=t2");
  await shows("<b>EUR 49.00</b>");
  await shows("€9.00");
  await shows("Inquiry");
  expect(asked(calls, "/api/v1/admin/payments/sessions")[0]?.get("status")).toBe("stuck");
  for (const list of ["payments/sessions", "refunds", "disputes"]) expect(asked(calls, `/api/v1/admin/${list}`)[0]?.get("tenant_id")).toBe("t2");
});

test("a top-up is reconciled with the provider, and a credited one is not offered", async () => {
  const replies = [problem(502, "provider_failed"), { body: topup }];
  const calls = serve(routes("billing_operator", { "POST /api/v1/admin/payments/sessions/p1/reconcile": () => replies.shift()! }));
  await open("/admin/payments");
  await opens("Reconcile p1");
  expect(labelled("Reconcile p2")).toBeNull();
  await click(confirmButton());
  await shows("message of provider_failed");
  await click(confirmButton());
  await shows("The top-up is reconciled");
  const keys = written(calls).map(({ headers }) => headers.get("X-Idempotency-Key"));
  expect(keys[0]).toBe(keys[1]);
});

test("a refund has an amount, a reason and the address of the user", async () => {
  const calls = serve(routes("billing_operator", { "POST /api/v1/admin/users/u2/refunds": () => ({ status: 201, body: refund }) }));
  await open("/admin/users/u2");
  await opens("Refund ada@acme.example");
  await enter("Type ada@acme.example", "ada@acme.example");
  await enter("Amount in EUR", "9.00");
  await enter("Reason", "no");
  expect(confirmButton()?.disabled).toBe(true);
  await enter("Reason", "node failed");
  for (const [amount, disabled] of [["", true], ["0", true], ["-1", true], ["1.234", true], ["9.00", false]] as const) {
    await enter("Amount in EUR", amount);
    expect(confirmButton()?.disabled).toBe(disabled);
  }
  await enter("Kind", "charge");
  await click(confirmButton());
  await shows("The refund is requested.");
  expect(await written(calls)[0]?.json()).toEqual({ kind: "charge", amount_minor: 900, currency: "EUR", reason: "node failed" });
  await opens("Refund ada@acme.example");
  await enter("Type ada@acme.example", "ada@acme.example");
  await enter("Reason", "node failed");
  await enter("Amount in EUR", "9.00");
  await enter("Id of the top-up", " p1 ");
  await click(confirmButton());
  await until(() => written(calls).length === 2);
  expect(await written(calls)[1]?.json()).toEqual({ kind: "unspent", amount_minor: 900, currency: "EUR", reason: "node failed", payment_session_id: "p1" });
});

test("a refund that needs a recent sign-in is offered again after it, with what was entered", async () => {
  const replies = [problem(403, "step_up_required"), { status: 201, body: refund }];
  const calls = serve(routes("billing_operator", { "POST /api/v1/admin/users/u2/refunds": () => replies.shift()! }));
  await open("/admin/users/u2");
  await opens("Refund ada@acme.example");
  await enter("Type ada@acme.example", "ada@acme.example");
  await enter("Kind", "charge");
  await enter("Amount in EUR", "9.00");
  await enter("Reason", "node failed");
  await click(confirmButton());
  await until(() => document.querySelector('[role="dialog"] a[href*="step_up=true"]') !== null);
  await enter("Reason", "node failed twice");
  document.body.replaceChildren();
  await open("/admin/users/u2");
  await until(() => confirmButton() !== null);
  expect(confirmButton()?.disabled).toBe(true);
  await enter("Type ada@acme.example", "ada@acme.example");
  await click(confirmButton());
  await shows("The refund is requested.");
  expect(await written(calls)[1]?.json()).toEqual({ kind: "charge", amount_minor: 900, currency: "EUR", reason: "node failed twice" });
  document.body.replaceChildren();
  await open("/admin/users/u2");
  await until(() => labelled("Refund ada@acme.example") !== null);
  expect(confirmButton()).toBeNull();
});

test("a dialog that needs no sign-in, or that the user cancels, is not offered again", async () => {
  const replies = [problem(422, "insufficient_balance"), problem(403, "step_up_required")];
  serve(routes("billing_operator", { "POST /api/v1/admin/users/u2/refunds": () => replies.shift()! }));
  const tries = async (message: string) => {
    document.body.replaceChildren();
    await open("/admin/users/u2");
    await until(() => labelled("Refund ada@acme.example") !== null);
    expect(confirmButton()).toBeNull();
    await opens("Refund ada@acme.example");
    await enter("Type ada@acme.example", "ada@acme.example");
    await enter("Amount in EUR", "9.00");
    await enter("Reason", "node failed");
    await click(confirmButton());
    await shows(message);
  };
  await tries("message of insufficient_balance");
  await tries("message of step_up_required");
  await click([...document.querySelectorAll('[role="dialog"] button')].find(({ textContent }) => textContent === "Cancel"));
  document.body.replaceChildren();
  await open("/admin/users/u2");
  await until(() => labelled("Refund ada@acme.example") !== null);
  expect(confirmButton()).toBeNull();
});

test("a dialog that needs a sign-in is not offered again after the user has gone to another screen", async () => {
  serve(routes("billing_operator", { "POST /api/v1/admin/users/u2/refunds": () => problem(403, "step_up_required") }));
  const router = await open("/admin/users/u2");
  await opens("Refund ada@acme.example");
  await enter("Type ada@acme.example", "ada@acme.example");
  await enter("Amount in EUR", "9.00");
  await enter("Reason", "node failed");
  await click(confirmButton());
  await shows("message of step_up_required");
  await act(() => router.navigate({ to: "/admin/payments" }));
  await shows("<b>EUR 49.00</b>");
  await act(() => router.history.back());
  await until(() => labelled("Refund ada@acme.example") !== null);
  expect(confirmButton()).toBeNull();
});

test("an adjustment shows the balance that it makes", async () => {
  const calls = serve(routes("billing_operator", { "POST /api/v1/admin/users/u2/balance": () => ({ status: 201, body: {} }) }));
  await open("/admin/users/u2");
  await opens("Adjust the balance ada@acme.example");
  await enter("Type ada@acme.example", "ada@acme.example");
  await enter("Reason", "double charge");
  await enter("Direction", "-1");
  await enter("Amount in EUR", "60");
  expect(document.querySelector('[role="dialog"]')?.textContent).toContain("The balance becomes -€10.00.");
  await click(confirmButton());
  await shows("The balance is adjusted.");
  expect(await written(calls)[0]?.json()).toEqual({ amount_minor: -6_000, currency: "EUR", reason: "double charge" });
});

test("a user without a tenant has no money to return", async () => {
  serve(routes("billing_operator", { "GET /api/v1/admin/users/u2": () => ({ body: { ...user, balance: undefined } }) }));
  await open("/admin/users/u2");
  await until(() => text().includes("Active allocations"));
  expect(labelled("Refund ada@acme.example")).toBeNull();
});
