import { expect, test } from "vitest";
import { asked, confirmButton, labelled, open, opens, shows, text, written } from "./operator";
import { button, click, enter, until } from "./render";
import { type Handler, problem, serve } from "./server";

const at = "2026-01-05T09:00:00Z";
const webhook = { id: "w1", urn: "u", name: "deploy-bot", url: "https://hooks.example.com/gpuaas", events: ["provisioning.*"], format: "standard", signature: "v1", status: "failing", failing_since: at, version: 4, created_at: at, updated_at: at };
const delivery = (id: string, more: object = {}) => ({
  id, urn: "u", webhook_id: "w1", event_id: "e", event_type: "provisioning.active", status: "failed", created_at: at, updated_at: at,
  attempts: [{ attempted_at: at, result: "failed", status_code: 503, latency_ms: 41, error: "the receiver responded 503", response: "<b>no backend</b>" }], ...more,
});
const one = "/api/v1/webhooks/w1";
const routes = (more: Record<string, Handler> = {}, role = "owner"): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "ada@x", name: "Ada", role: "user" }, tenant: { id: "t1", name: "acme", role } } }),
  "GET /api/v1/projects": () => ({ body: { items: [] } }),
  "GET /api/v1/webhooks": () => ({ body: { items: [webhook] } }),
  [`GET ${one}`]: () => ({ body: webhook }),
  [`GET ${one}/deliveries`]: () => ({ body: { items: [delivery("d1"), delivery("d2", { status: "pending", event_type: "provisioning.failed", attempts: [] })] } }),
  ...more,
});

test("a webhook is created once, with the patterns of its lines, and its secret is shown once", async () => {
  const calls = serve(routes({ "POST /api/v1/webhooks": () => ({ status: 201, body: { ...webhook, secret: "whsec_abc" } }) }));
  await open("/webhooks");
  await shows("deploy-bot");
  await enter("Name *", "deploy-bot");
  await enter("Address", "javascript:alert(1)");
  await shows("Enter a web address.");
  expect(button("Create the webhook")?.hasAttribute("disabled")).toBe(true);
  await enter("Address", "https://hooks.example.com/gpuaas");
  await enter("Events", " provisioning.active\nbilling.*\nbilling.* ");
  await click(button("Create the webhook"));
  await shows("whsec_abc");
  expect(written(calls)).toHaveLength(1);
  expect(await written(calls)[0]?.json()).toEqual({ name: "deploy-bot", url: "https://hooks.example.com/gpuaas", events: ["provisioning.active", "billing.*"], format: "standard", signature: "v1" });
  await click(button("I have copied it"));
  await until(() => !text().includes("whsec_abc"));
});

test("the log of deliveries has each attempt, as text", async () => {
  const calls = serve(routes());
  await open("/webhooks/w1?status=failed");
  await shows("the receiver responded 503");
  expect(text()).toContain("<b>no backend</b>");
  expect(document.querySelector("table b")).toBeNull();
  expect(asked(calls, `${one}/deliveries`)[0]?.get("status")).toBe("failed");
  expect(labelled("Resend provisioning.failed")).toBeNull();
});

test("a delivery is sent again", async () => {
  const calls = serve(routes({ [`POST ${one}/deliveries/d1/resend`]: () => ({ status: 202, body: delivery("d1", { status: "pending" }) }) }));
  await open("/webhooks/w1");
  await until(() => labelled("Resend provisioning.active") !== null);
  await click(labelled("Resend provisioning.active"));
  await shows("The delivery is sent again.");
  await until(() => asked(calls, `${one}/deliveries`).length === 2);
});

test("a test shows the response of the receiver", async () => {
  const replies = [{ result: "delivered", message_id: "m", status_code: 204, latency_ms: 41 }, { result: "failed", message_id: "m", latency_ms: 0, error: "the address is private" }];
  serve(routes({ [`POST ${one}/test`]: () => ({ body: replies.shift()! }) }));
  await open("/webhooks/w1");
  await until(() => button("Send a test") !== undefined);
  await click(button("Send a test"));
  await shows("The receiver responded 204 after 41 ms.");
  await click(button("Send a test"));
  await shows("The test failed: the address is private");
});

test("a disabled webhook is enabled in its version, and its deliveries cannot be sent before", async () => {
  const calls = serve(routes({ [`GET ${one}`]: () => ({ body: { ...webhook, status: "disabled", disabled_reason: "failures" } }), [`PATCH ${one}`]: () => ({ body: webhook }) }));
  await open("/webhooks/w1");
  await shows("All attempts of five days have failed");
  await shows("the receiver responded 503");
  expect(labelled("Resend provisioning.active")).toBeNull();
  await click(button("Enable"));
  await shows("The webhook deploy-bot is enabled.");
  expect(written(calls)[0]?.headers.get("If-Match")).toBe('"4"');
  expect(await written(calls)[0]?.json()).toEqual({ disabled: false });
});

test("missed deliveries are replayed, or all since a time", async () => {
  const calls = serve(routes({ [`POST ${one}/replay`]: () => ({ status: 202, body: { deliveries: 12 } }) }));
  await open("/webhooks/w1");
  await until(() => button("Replay") !== undefined);
  await click(button("Replay"));
  await until(() => confirmButton() !== null);
  await click(confirmButton());
  await shows("12 deliveries are sent again.");
  expect(await written(calls)[0]?.json()).toEqual({ mode: "missed" });
  await click(button("Replay"));
  await until(() => confirmButton() !== null);
  await enter("Deliveries", "all");
  expect(confirmButton()?.disabled).toBe(true);
  await enter("Since", "2026-01-05T09:00");
  await click(confirmButton());
  await until(() => written(calls).length === 2);
  expect(await written(calls)[1]?.json()).toEqual({ mode: "all", from_at: new Date("2026-01-05T09:00").toISOString() });
});

test("only what has changed is saved, in the version of the opened form", async () => {
  const calls = serve(routes({ [`PATCH ${one}`]: () => problem(412, "version_mismatch") }));
  await open("/webhooks/w1");
  await until(() => button("Change name, address and events") !== undefined);
  await click(button("Change name, address and events"));
  await enter("Events", "provisioning.*\npayments.*");
  await click(button("Save"));
  await shows("message of version_mismatch");
  expect(await written(calls)[0]?.json()).toEqual({ events: ["provisioning.*", "payments.*"] });
});

test("a rotated secret is shown once, and a webhook is deleted by its name", async () => {
  const calls = serve(routes({ [`POST ${one}/rotate-secret`]: () => ({ body: { ...webhook, secret: "whsec_new" } }), [`DELETE ${one}`]: () => ({ status: 204 }) }));
  const router = await open("/webhooks/w1");
  await until(() => button("Rotate the secret") !== undefined);
  await click(button("Rotate the secret"));
  await shows("whsec_new");
  await click(button("I have copied it"));
  await opens("Delete deploy-bot");
  expect(confirmButton()?.disabled).toBe(true);
  await enter("Type deploy-bot", "deploy-bot");
  await click(confirmButton());
  await until(() => router.state.location.pathname === "/webhooks");
  expect(written(calls)[1]?.headers.get("If-Match")).toBe('"4"');
});
