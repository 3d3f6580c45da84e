import { RouterProvider, createMemoryHistory } from "@tanstack/react-router";
import { expect, test } from "vitest";
import { newRouter } from "../src/routes/router";
import { releaseAll } from "../src/screens/allocations/release";
import { button, click, enter, render, until } from "./render";
import { problem, serve } from "./server";

const money = { amount_minor: 100, currency: "EUR" };
const allocation = (id: string, status = "active") => ({
  id, urn: id, name: `otter-${id}`, status, sku: "t4", gpus: 1, region: "eu-1", login: "u", price: money, cost: money, labels: {}, version: 1, created_at: "x", status_at: "x", conditions: [],
});

const routes = (role: string) => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "dev@x", name: "Dev" }, tenant: { id: "t", name: "t", role: "member" } } }),
  "GET /api/v1/projects": () => ({ body: { items: [{ id: "p", name: "p", role }] } }),
  "GET /api/v1/skus": () => ({ body: { items: [] } }),
  "GET /api/v1/allocations": () => ({ body: { items: [allocation("a"), allocation("b"), allocation("c", "released")] } }),
});

const open = () => render(<RouterProvider router={newRouter(createMemoryHistory({ initialEntries: ["/portal/allocations"] })) as never} />);
const checkbox = (name: string) => document.querySelector<HTMLInputElement>(`[aria-label="Select ${name}"]`);
const confirm = () => document.querySelector<HTMLButtonElement>('[role="dialog"] button[type="submit"]');

test("the selected allocations are released after their number was typed, and a failed one stays selected", async () => {
  const calls = serve({
    ...routes("member"),
    "POST /api/v1/allocations/a/release": () => ({ status: 202, body: {} }),
    "POST /api/v1/allocations/b/release": () => problem(409, "conflict"),
  });
  const page = await open();
  await until(() => checkbox("otter-a") !== null);
  expect(checkbox("otter-c")).toBeNull();
  checkbox("otter-a")?.focus();
  await click(checkbox("otter-a"));
  expect(document.activeElement).toBe(checkbox("otter-a"));
  await click(checkbox("otter-b"));
  await click(button("Release the selected"));
  await until(() => confirm() !== null);
  await enter("Type 2 to confirm", "3");
  expect(confirm()?.disabled).toBe(true);
  await enter("Type 2 to confirm", "2");
  await click(confirm());
  await until(() => page.textContent?.includes("1 of 2 are being released.") === true);
  expect(page.textContent).toContain("otter-b: message of conflict");
  expect([checkbox("otter-a")?.checked, checkbox("otter-b")?.checked]).toEqual([false, true]);
  const keysOf = calls.filter(({ method }) => method === "POST").map(({ headers }) => headers.get("X-Idempotency-Key"));
  expect(new Set(keysOf).size).toBe(2);
});

test("a viewer of a project selects nothing", async () => {
  serve(routes("viewer"));
  const page = await open();
  await until(() => page.textContent?.includes("otter-a") === true);
  expect(checkbox("otter-a")).toBeNull();
});

test("a release that is limited ends the others, which stay selected", async () => {
  const calls = serve({ "*": () => problem(429, "rate_limited") });
  const outcome = await releaseAll([{ id: "a", name: "a" }, { id: "b", name: "b" }], "k");
  expect(calls).toHaveLength(1);
  expect(outcome).toEqual({ released: [], failed: [{ id: "a", name: "a", message: "message of rate_limited", unknown: false }], left: [{ id: "b", name: "b" }] });
});

test("a repetition of a release without a response has the same key, and says that the release may not be done", async () => {
  let lost = true;
  const calls = serve({
    ...routes("member"),
    "POST /api/v1/allocations/a/release": () => {
      if (!lost) return { status: 202, body: {} };
      lost = false;
      throw new Error("connection lost");
    },
  });
  const page = await open();
  await until(() => checkbox("otter-a") !== null);
  await click(checkbox("otter-a"));
  for (const text of ["0 of 1 are being released.", "1 of 1 are being released."]) {
    await click(button("Release the selected"));
    await until(() => confirm() !== null);
    // The dialog does not open confirmed.
    expect(confirm()?.disabled).toBe(true);
    await enter("Type 1 to confirm", "1");
    await click(confirm());
    await until(() => page.textContent?.includes(text) === true && confirm() === null);
    if (text.startsWith("0")) expect(page.textContent).toContain("These allocations may not be released:");
  }
  const [first, second] = calls.filter(({ method }) => method === "POST").map(({ headers }) => headers.get("X-Idempotency-Key"));
  expect(first).toBe(second);
});

test("what a filter hides is not selected", async () => {
  serve({ ...routes("member"), "GET /api/v1/allocations": ({ url }) => ({ body: { items: url.includes("status=active") ? [allocation("b")] : [allocation("a"), allocation("b")] } }) });
  const page = await open();
  await until(() => checkbox("otter-a") !== null);
  await click(checkbox("otter-a"));
  await click(checkbox("otter-b"));
  expect(page.textContent).toContain("2 allocations are selected");
  await enter("State", "active");
  await until(() => checkbox("otter-a") === null && checkbox("otter-b") !== null);
  await click(button("Release the selected"));
  await until(() => confirm() !== null);
  expect(document.querySelector('[role="dialog"]')?.textContent).not.toContain("otter-a");
  expect(document.querySelector('[role="dialog"]')?.textContent).toContain("otter-b");
});
