import { expect, test, vi } from "vitest";
import { act } from "react";
import type { Schemas } from "../src/api/client";
import { Expiry } from "../src/screens/allocation/expiry";
import { button, click, render, until } from "./render";
import { problem, serve } from "./server";

const allocation = { id: "a", version: 3, expires_at: new Date(Date.now() + 7_200_000).toISOString() } as Schemas["Allocation"];

const enter = (text: string) =>
  act(async () => {
    const field = document.querySelector("input")!;
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")!.set!.call(field, text);
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });

test("a change of the expiry names the version on the screen, and can be undone with the next one", async () => {
  const bodies: number[] = [];
  const calls = serve({
    "PATCH /api/v1/allocations/a": async (request) => {
      bodies.push(((await request.json()) as { ttl_seconds: number }).ttl_seconds);
      return { body: { ...allocation, version: 4, expires_at: "2030-01-01T00:00:00Z" } };
    },
  });
  await render(<Expiry allocation={allocation} />);
  await enter("5");
  await click(button("Change"));
  await until(() => button("Undo") !== undefined);
  await click(button("Undo"));
  await until(() => calls.length === 2);
  expect(calls.map(({ headers }) => headers.get("If-Match"))).toEqual(['"3"', '"4"']);
  await until(() => bodies.length === 2);
  expect(bodies[0]).toBe(18_000);
  expect(Math.abs(bodies[1]! - 7_200)).toBeLessThan(5);
});

test("an expiry that has passed or comes within the shortest TTL is not set again", async () => {
  const calls = serve({ "PATCH /api/v1/allocations/a": () => ({ body: { ...allocation, version: 4, expires_at: "2030-01-01T00:00:00Z" } }) });
  const soon = new Date(Date.now() + 30_000).toISOString();
  await render(<Expiry allocation={{ ...allocation, expires_at: soon }} />);
  await enter("5");
  await click(button("Change"));
  await until(() => document.body.textContent?.includes("The allocation expires") === true);
  expect(button("Undo")).toBeUndefined();

  document.body.replaceChildren();
  await render(<Expiry allocation={{ ...allocation, expires_at: new Date(Date.now() + 62_000).toISOString() }} />);
  await enter("5");
  await click(button("Change"));
  await until(() => button("Undo") !== undefined);
  vi.spyOn(Date, "now").mockReturnValue(Date.now() + 70_000);
  await click(button("Undo"));
  await until(() => document.body.textContent?.includes("too near") === true);
  expect(calls).toHaveLength(2);
});

test("a version that is no longer current is an error with its code", async () => {
  serve({ "PATCH /api/v1/allocations/a": () => problem(412, "version_conflict") });
  await render(<Expiry allocation={allocation} />);
  await enter("5");
  await click(button("Change"));
  await until(() => document.body.textContent?.includes("version_conflict") === true);
  expect(button("Undo")).toBeUndefined();
});
