import { expect, test } from "vitest";
import { localOf } from "../src/components/system/when";
import { asked, confirmButton, labelled, open, opens, shows, text, written } from "./operator";
import { button, click, enter, until } from "./render";
import { type Handler, problem, serve } from "./server";

const at = "2026-01-05T09:00:00Z";
const letter = (id: string, more: object = {}) => ({
  id, urn: "u", consumer: "notification_relay_expiring", event_id: "e1", stream: "PROVISIONING", subject: "provisioning.expiring", error: "<img src=x> is no time", attempts: 10, status: "dead", created_at: at, updated_at: at, ...more,
});
const consumer = { name: "notification_relay_expiring", stream: "PROVISIONING", epoch: "7", pending: 12, redelivered: 3, oldest_at: at, lag_seconds: 60, checked_at: at };
const dead = "/api/v1/admin/events/dead-letters";
const routes = (role: string, more: Record<string, Handler> = {}): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "op@x", name: "Op", role } } }),
  [`GET ${dead}`]: () => ({ body: { items: [letter("l1"), letter("l2", { status: "discarded", subject: "provisioning.active" })] } }),
  [`GET ${dead}/l1`]: () => ({ body: letter("l1", { event: { event_id: "e1", event_type: "provisioning.expiring", occurred_at: at, version: "1.0", correlation_id: "c", payload: { text: "<script>" } } }) }),
  "GET /api/v1/admin/events/consumers": () => ({ body: { items: [consumer, { ...consumer, name: "ops_dlq", stream: "DLQ", oldest_at: undefined }] } }),
  ...more,
});

test("the server filters dead letters, and an error is text", async () => {
  const calls = serve(routes("operator"));
  await open("/admin/events?stream=PROVISIONING&subject=provisioning.expiring&state=resolved");
  await shows("<img src=x> is no time");
  expect(document.querySelector("table img")).toBeNull();
  const sent = asked(calls, dead)[0];
  expect([sent?.get("stream"), sent?.get("subject"), sent?.get("resolved")]).toEqual(["PROVISIONING", "provisioning.expiring", "true"]);
  expect(text()).toContain("gpuaas events dead-letters --stream 'PROVISIONING' --subject 'provisioning.expiring'");
});

test("a dead letter is retried with a reason, and a resolved one offers nothing", async () => {
  const calls = serve(routes("operator", { [`POST ${dead}/retry`]: () => ({ status: 202, body: { dead_letters: 1 } }) }));
  await open("/admin/events");
  await shows("provisioning.active");
  expect(labelled("Retry provisioning.active")).toBeNull();
  await opens("Retry provisioning.expiring");
  expect(confirmButton()?.disabled).toBe(true);
  await enter("Reason", "the template is mended");
  await click(confirmButton());
  await shows("The event is processed again.");
  expect(await written(calls)[0]?.json()).toEqual({ dead_letter_ids: ["l1"], reason: "the template is mended" });
  await until(() => asked(calls, dead).length === 2);
});

test("all dead letters of a filter are discarded in one request", async () => {
  const calls = serve(routes("admin", { [`POST ${dead}/discard`]: () => ({ status: 202, body: { dead_letters: 40 } }) }));
  await open("/admin/events?consumer=notification_relay_expiring");
  await opens("Discard all that match the filters");
  await enter("Reason", "sent by hand");
  await click(confirmButton());
  await shows("The dead letter is discarded.");
  expect(await written(calls)[0]?.json()).toEqual({ consumer: "notification_relay_expiring", reason: "sent by hand" });
});

test("a replay has a range of time, and repeats effects only on request", async () => {
  const path = "/api/v1/admin/events/consumers/notification_relay_expiring/replay";
  const calls = serve(routes("operator", { [`POST ${path}`]: () => ({ status: 202, body: { replay_id: "r", consumer: "notification_relay_expiring" } }) }));
  await open("/admin/events");
  await shows("ops_dlq");
  expect(labelled("Replay ops_dlq")).toBeNull();
  await opens("Replay notification_relay_expiring");
  const [from, to] = [localOf(Date.parse(at)), localOf(Date.parse(at) + 3_600_000)];
  await enter("From", to);
  await enter("To", from);
  await enter("Reason", "the template is mended");
  expect(confirmButton()?.disabled).toBe(true);
  await enter("From", from);
  await enter("To", to);
  await click(confirmButton());
  await shows("The replay to notification_relay_expiring has begun.");
  expect(await written(calls)[0]?.json()).toEqual({ from_at: new Date(from).toISOString(), to_at: new Date(to).toISOString(), repeat: false, reason: "the template is mended" });
});

test("a dead letter shows its event as text", async () => {
  serve(routes("operator"));
  await open("/admin/events/l1");
  await shows('"text": "<script>"');
  expect(document.querySelector("pre script")).toBeNull();
  expect(button("Discard")).toBeDefined();
});

test("a rejected retry stays open with the error", async () => {
  serve(routes("operator", { [`POST ${dead}/retry`]: () => problem(409, "conflict") }));
  await open("/admin/events/l1");
  await opens("Retry provisioning.expiring");
  await enter("Reason", "again");
  await click(confirmButton());
  await shows("message of conflict");
  expect(confirmButton()).not.toBeNull();
});
