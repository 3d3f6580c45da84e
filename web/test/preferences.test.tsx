import { expect, test } from "vitest";
import { asked, labelled, open, shows, text, written } from "./operator";
import { button, click, enter, until } from "./render";
import { type Handler, problem, serve } from "./server";

const kind = (name: string, mutable: boolean, email: object) => ({
  kind: name, title: `<i>${name}</i>`, severity: "warning", audience: "owners", enabled: mutable, mutable, channels: [{ channel: "in_app", value: "now", source: "default" }, { channel: "email", ...email }],
});
const preferences = {
  version: "3", time_zone: "Europe/Berlin", quiet_hours: { start: "22:00", end: "07:00" }, email: { address: "ada@x", verified: true, enabled: true },
  kinds: [kind("low_balance", true, { value: "daily", source: "user" }), kind("balance_depleted", false, { value: "now", source: "tenant" })],
};
const own = "/api/v1/notifications/preferences";
const ofTenant = "/api/v1/tenant/notifications/preferences";
const routes = (role: string, more: Record<string, Handler> = {}): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "ada@x", name: "Ada", role: "user" }, tenant: { id: "t1", name: "acme", role } } }),
  "GET /api/v1/projects": () => ({ body: { items: [] } }),
  [`GET ${own}`]: () => ({ body: preferences }),
  [`GET ${ofTenant}`]: () => ({ body: { version: "1", kinds: preferences.kinds } }),
  ...more,
});
const optionsOf = (label: string) => [...(labelled(label) as HTMLSelectElement).options].map(({ value }) => value);

test("own choices are sent, and what follows a default is not", async () => {
  const calls = serve(routes("member", { [`PUT ${own}`]: () => ({ body: { ...preferences, version: "4" } }) }));
  await open("/notifications/preferences");
  await shows("E-mails go to ada@x.");
  expect(text()).toContain("<i>low_balance</i>");
  expect(text()).toContain("A policy disables this kind.");
  expect(document.querySelector("table i")).toBeNull();
  expect(asked(calls, ofTenant)).toHaveLength(0);
  await click(button("Save"));
  await shows("The preferences are saved.");
  expect(written(calls)[0]?.headers.get("If-Match")).toBe('"3"');
  expect(await written(calls)[0]?.json()).toEqual({ time_zone: "Europe/Berlin", quiet_hours: { start: "22:00", end: "07:00" }, choices: [{ kind: "low_balance", channel: "email", value: "daily" }] });
});

test("a kind that must be seen offers no off in the portal, and e-mails offer digests", async () => {
  serve(routes("member"));
  await open("/notifications/preferences");
  await until(() => labelled("In the portal: <i>balance_depleted</i>") !== null);
  expect(optionsOf("In the portal: <i>balance_depleted</i>")).toEqual(["", "now"]);
  expect(optionsOf("In the portal: <i>low_balance</i>")).toEqual(["", "off", "now"]);
  expect(optionsOf("E-mail: <i>balance_depleted</i>")).toEqual(["", "off", "now", "hourly", "daily"]);
  expect((labelled("E-mail: <i>balance_depleted</i>") as HTMLSelectElement).selectedOptions[0]?.textContent).toBe("Default (At once, from the tenant)");
});

test("quiet hours have both ends or none", async () => {
  const calls = serve(routes("member", { [`PUT ${own}`]: () => problem(422, "invalid_request") }));
  await open("/notifications/preferences");
  await shows("E-mails go to ada@x.");
  await enter("Begin", "");
  expect(button("Save")?.hasAttribute("disabled")).toBe(true);
  await enter("End", "");
  await enter("Time zone", "");
  await click(button("Save"));
  await shows("message of invalid_request");
  expect(await written(calls)[0]?.json()).toEqual({ choices: [{ kind: "low_balance", channel: "email", value: "daily" }] });
});

test("an owner sets the defaults of the tenant", async () => {
  const calls = serve(routes("owner", { [`PUT ${ofTenant}`]: () => ({ body: preferences }) }));
  await open("/notifications/preferences");
  await until(() => document.querySelectorAll('[aria-label="E-mail: <i>low_balance</i>"]').length === 2);
  const save = [...document.querySelectorAll("button")].filter(({ textContent }) => textContent === "Save")[1];
  await click(save);
  await shows("The preferences are saved.");
  expect(new URL(written(calls)[0]!.url).pathname).toBe(ofTenant);
  expect(await written(calls)[0]?.json()).toEqual({ choices: [{ kind: "balance_depleted", channel: "email", value: "now" }] });
});

test("the screen says why no e-mail is sent, and a test names each channel", async () => {
  const email = { ...preferences.email, suppressed_at: "2026-01-05T09:00:00Z", suppressed_reason: "550 no such user" };
  serve(
    routes("member", {
      [`GET ${own}`]: () => ({ body: { ...preferences, email } }),
      "POST /api/v1/notifications/test": () => ({ body: { notification_id: "n", channels: [{ channel: "in_app", sent: true }, { channel: "email", sent: false, reason: "the address is suppressed" }] } }),
    }),
  );
  await open("/notifications/preferences");
  await shows("550 no such user");
  await click(button("Send a test notification"));
  await shows("In the portal: sent. E-mail: not sent, the address is suppressed");
});
