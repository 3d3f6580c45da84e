import { act } from "react";
import { expect, test } from "vitest";
import { asked, confirmButton, labelled, open, opens, shows, text, written } from "./operator";
import { button, click, enter, until } from "./render";
import { type Handler, problem, serve } from "./server";

const at = "2026-01-05T09:00:00Z";
const times = { urn: "u", created_at: at, updated_at: at };
const tenant = { id: "t2", name: "acme", currency: "EUR", version: 4, ...times };
const user = { id: "u2", email: "ada@acme.example", name: "<i>Ada</i>", role: "user", role_from: "platform", issuer: "https://id", tenant: { id: "t2", urn: "u", name: "acme", role: "owner" }, disabled: false, version: 7, balance: { amount_minor: 5_000, currency: "EUR" }, active_allocations: 2, ...times };
const session = { id: "s1", user_id: "u2", kind: "browser", issuer: "https://id", address: "203.0.113.7", user_agent: "Firefox", current: false, expires_at: at, ...times };
const empty = () => ({ body: { items: [] } });
const routes = (role: string, more: Record<string, Handler> = {}): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "op@x", name: "Op", role } } }),
  "GET /api/v1/admin/users": () => ({ body: { items: [user] } }),
  "GET /api/v1/admin/users/u2": () => ({ body: user }),
  "GET /api/v1/admin/sessions": () => ({ body: { items: [session, { ...session, id: "s2", current: true }] } }),
  "GET /api/v1/admin/tenants": () => ({ body: { items: [tenant] } }),
  "GET /api/v1/admin/tenants/t2": () => ({ body: tenant }),
  "GET /api/v1/admin/tenants/t2/balance": () => ({ body: { amount_minor: 5_000, currency: "EUR", burn_per_hour_minor: 1_800, runway_seconds: 10_000, low: true } }),
  "GET /api/v1/admin/tenants/t2/usage": () => ({ body: { items: [{ key: "p1", name: "speech", seconds: 3_600, gpu_seconds: 7_200, cost: { amount_minor: 3_600, currency: "EUR" } }] } }),
  "GET /api/v1/admin/tenants/t2/ledger": () => ({ body: { items: [{ id: 1, kind: "topup", reference: "cs_1", amount_minor: 8_600, currency: "EUR", occurred_at: at, transfer_id: "x", ...times }] } }),
  ...more,
});

test("users are filtered by the server, and an operator is offered no change", async () => {
  const calls = serve(routes("operator"));
  const router = await open("/admin/users?role=user");
  await shows("ada@acme.example");
  expect(text()).toContain("<i>Ada</i>");
  expect(asked(calls, "/api/v1/admin/users")[0]?.get("role")).toBe("user");
  expect(button("Create the user")).toBeUndefined();
  await act(() => router.navigate({ to: "/admin/users/$id", params: { id: "u2" } }));
  await shows("€50.00");
  for (const name of ["Disable", "Relink", "Delete", "Refund"]) expect(labelled(`${name} ada@acme.example`)).toBeNull();
  expect(asked(calls, "/api/v1/admin/sessions")).toHaveLength(0);
});

test("a user is disabled by address, in the version on the screen", async () => {
  const calls = serve(routes("admin", { "PATCH /api/v1/admin/users/u2": () => ({ body: user }) }));
  await open("/admin/users/u2");
  await opens("Disable ada@acme.example");
  expect(confirmButton()?.disabled).toBe(true);
  await enter("Type ada@acme.example", "ada@acme.example");
  await click(confirmButton());
  await shows("<i>Ada</i> is disabled.");
  expect(await written(calls)[0]?.json()).toEqual({ disabled: true });
  expect(written(calls)[0]?.headers.get("If-Match")).toBe('"7"');
});

test("a user is relinked, and keys stay only for the same owner", async () => {
  const calls = serve(routes("admin", { "PATCH /api/v1/admin/users/u2": () => ({ body: user }) }));
  await open("/admin/users/u2");
  for (const body of [{ relink: true }, { relink: true, same_owner: true }]) {
    if ("same_owner" in body) await click(document.querySelector('input[type="checkbox"]'));
    await opens("Relink ada@acme.example");
    await enter("Type ada@acme.example", "ada@acme.example");
    await click(confirmButton());
    await until(() => confirmButton() === null);
    expect(await written(calls).at(-1)?.json()).toEqual(body);
  }
});

test("administrators do not change themselves", async () => {
  serve(routes("admin", { "GET /api/v1/admin/users/me": () => ({ body: { ...user, id: "me" } }) }));
  await open("/admin/users/me");
  await shows("This is your own user");
  expect(labelled("Disable ada@acme.example")).toBeNull();
});

test("a role of the identity provider is not changed here", async () => {
  serve(routes("admin", { "GET /api/v1/admin/users/u2": () => ({ body: { ...user, role_from: "provider" } }) }));
  await open("/admin/users/u2");
  await until(() => labelled("Disable ada@acme.example") !== null);
  expect(document.querySelector('select[aria-label*="ada@acme.example"]')).toBeNull();
});

test("sessions of a user end, and the own one does not", async () => {
  const calls = serve(routes("admin", { "DELETE /api/v1/admin/sessions/s1": () => ({ status: 204 }) }));
  await open("/admin/sessions?user=u2");
  await opens("End 203.0.113.7");
  expect(asked(calls, "/api/v1/admin/sessions")[0]?.get("user_id")).toBe("u2");
  expect(document.querySelectorAll('[aria-label="End 203.0.113.7"]')).toHaveLength(1);
  await click(confirmButton());
  await shows("The session has ended.");
});

test("a user is created with a role in a tenant", async () => {
  const calls = serve(routes("admin", { "POST /api/v1/admin/users": () => ({ status: 201, body: user }) }));
  const router = await open("/admin/users");
  await until(() => button("Create the user") !== undefined);
  await enter("E-mail address", "ada@acme.example");
  expect(button("Create the user")?.disabled).toBe(true);
  await enter("Name of the user", "Ada");
  expect(button("Create the user")?.disabled).toBe(false);
  await enter("Tenant of the user", "t2");
  await enter("Role in the tenant", "viewer");
  await click(button("Create the user"));
  await until(() => router.state.location.pathname.endsWith("/admin/users/u2"));
  expect(await written(calls)[0]?.json()).toEqual({ email: "ada@acme.example", name: "Ada", role: "user", tenant_id: "t2", tenant_role: "viewer" });
});

test("a tenant is created with a name that is a label", async () => {
  const calls = serve(routes("admin", { "POST /api/v1/admin/tenants": () => ({ status: 201, body: tenant }) }));
  const router = await open("/admin/tenants");
  await until(() => button("Create the tenant") !== undefined);
  await enter("Name", "Acme!");
  expect(button("Create the tenant")?.disabled).toBe(true);
  await enter("Name", "acme");
  await enter("Currency", "eur");
  expect(button("Create the tenant")?.disabled).toBe(true);
  await enter("Currency", "EUR");
  await click(button("Create the tenant"));
  await until(() => router.state.location.pathname.endsWith("/admin/tenants/t2"));
  expect(await written(calls)[0]?.json()).toEqual({ name: "acme", currency: "EUR" });
});

test("a tenant without a currency gets that of the platform", async () => {
  const calls = serve(routes("admin", { "POST /api/v1/admin/tenants": () => ({ status: 201, body: tenant }) }));
  await open("/admin/tenants");
  await until(() => button("Create the tenant") !== undefined);
  await enter("Name", "acme");
  await click(button("Create the tenant"));
  await until(() => written(calls).length === 1);
  expect(await written(calls)[0]?.json()).toEqual({ name: "acme" });
});

test("a user is added to a tenant with the chosen role", async () => {
  const calls = serve(routes("admin", { "PUT /api/v1/admin/tenants/t2/members/u2": () => ({ body: { ...user, role: "billing" } }) }));
  await open("/admin/tenants/t2");
  await until(() => button("Add the user") !== undefined);
  await enter("Id of the user", " u2 ");
  await enter("Role", "billing");
  await click(button("Add the user"));
  await until(() => written(calls).length === 1);
  expect(await written(calls)[0]?.json()).toEqual({ role: "billing" });
});

test("a tenant shows balance, usage, ledger and users, and what remains hinders its deletion", async () => {
  const calls = serve(routes("admin", { "DELETE /api/v1/admin/tenants/t2": () => problem(409, "tenant_not_empty") }));
  await open("/admin/tenants/t2");
  await shows("topup");
  for (const part of ["€50.00", "€18.00 per hour", "speech", "€36.00", "€86.00", "ada@acme.example", "below its threshold"]) await shows(part);
  expect(asked(calls, "/api/v1/admin/users")[0]?.get("tenant")).toBe("t2");
  await opens("Delete acme");
  await enter("Type acme", "acme");
  await click(confirmButton());
  await shows("message of tenant_not_empty");
  expect(written(calls)[0]?.headers.get("If-Match")).toBe('"4"');
});

test("a billing operator sees the money of a tenant, and not the rest", async () => {
  const calls = serve(routes("billing_operator", { "GET /api/v1/admin/users": empty }));
  await open("/admin/tenants/t2");
  await shows("€86.00");
  expect(asked(calls, "/api/v1/admin/tenants/t2")).toHaveLength(0);
  expect(labelled("Delete acme")).toBeNull();
});
