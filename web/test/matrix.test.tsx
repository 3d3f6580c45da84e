import { expect, test, vi } from "vitest";
import { operationNamed, success } from "./contract";
import { map } from "./map";
import { empty } from "./mutate";
import { until } from "./render";
import { changed, everything, failing, has, loaded, open, pathOf, signedIn, succeeding, text } from "./screen";
import { type Handler, serve } from "./server";

// expected is the state that a screen shows for a status of its calls. A call that is limited or not available is
// repeated, and the screen waits.
const expected: Record<number, string> = { 400: "error", 401: "error", 403: "restricted", 404: "error", 409: "error", 412: "error", 429: "rate_limited", 500: "error", 503: "loading" };

class Unconnected {
  static readonly OPEN = 1;
  readonly readyState = 0;
  close() {}
  send() {}
}

const network = (reply: Handler) => serve(signedIn(everything, reply));

test("the map has the screens of the portal, each with its states", () => {
  expect(map.screens.length).toBeGreaterThan(15);
  for (const { states } of map.screens) expect(states).toEqual(expect.arrayContaining(["loading", "error", "success", "restricted", "rate_limited"]));
});

for (const { route, example, states } of map.screens) {
  for (const [status, state] of Object.entries(expected)) {
    test(`${route} shows the state ${state} for ${status}`, async () => {
      network(failing(Number(status)));
      await open(example);
      await until(() => has("h1") && has(`[data-state="${state}"]`));
      expect(text()).not.toContain("This screen failed");
    });
  }

  test(`${route} shows a lost connection`, async () => {
    network(() => {
      throw new Error("connection lost");
    });
    await open(example);
    await until(() => text().includes("The server cannot be reached"));
  });

  test(`${route} shows that it loads`, async () => {
    network(() => new Promise(() => {}));
    await open(example);
    await until(() => has('[data-state="loading"]'));
  });

  test(`${route} shows the examples of the contract`, async () => {
    if (route.endsWith("/terminal")) vi.stubGlobal("WebSocket", Unconnected);
    network(succeeding);
    await open(example);
    await loaded();
    for (const state of ["error", "restricted", "rate_limited", "degraded"]) expect(has(`[data-state="${state}"]`), state).toBe(false);
  });

  if (states.includes("empty")) {
    test(`${route} shows that there is nothing`, async () => {
      network(changed(empty));
      await open(example);
      await loaded();
      await until(() => has('[data-state="empty"]'));
    });
  }
}

const degraded = { status: "degraded", reason: "timeout", message: "not read within 2s", runbook_id: "section-degraded" };
// What has no section of a read model.
const apart = new Set(["/api/v1/admin/desired/Node/n", "/api/v1/admin/git-sources", "/api/v1/users/me", "/api/v1/projects", "/api/v1/users/me/invitations", "/api/v1/tenant/members", "/api/v1/billing/usage/intervals", "/api/v1/billing/refunds", "/api/v1/billing/limits"]);

for (const { route, example, operations } of map.screens) {
  const model = operations.map(operationNamed).find(({ path }) => path.startsWith("/api/v3/"));
  if (model === undefined) continue;
  const whole = success(model).body as Record<string, { operation: string }>;
  test(`${route} shows the other sections while one is degraded, with one request`, async () => {
    let shown = 0;
    for (const [name, section] of Object.entries(whole)) {
      const calls = network((request) => (pathOf(request) === model.path.replaceAll(/\{([a-z])[^}]*\}/g, example.split("/").at(-1)!) ? { body: { ...whole, [name]: { ...degraded, operation: section.operation } } } : succeeding(request)));
      document.body.replaceChildren();
      await open(example);
      await loaded();
      const count = document.querySelectorAll('[data-state="degraded"]').length;
      expect(count, name).toBeLessThanOrEqual(1);
      if (count === 1) expect(text()).toContain("section-degraded");
      shown += count;
      const others = calls.map(pathOf).filter((path) => !apart.has(path) && !path.startsWith("/api/v3/"));
      expect([...new Set(others)].filter((path) => !path.includes("telemetry"))).toEqual([]);
    }
    expect(shown).toBeGreaterThan(0);
  });
}
