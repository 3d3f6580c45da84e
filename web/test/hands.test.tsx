import { RouterProvider, createMemoryHistory } from "@tanstack/react-router";
import { act } from "react";
import { expect, test, vi } from "vitest";
import { newRouter } from "../src/routes/router";
import { screens } from "../src/routes/screens";
import { keysOf, shortcuts } from "../src/routes/shortcuts";
import { recentOf } from "../src/session/recent";
import { viewsOf } from "../src/session/views";
import { setPreference } from "../src/theme/preferences";
import { button, click, enter, pause, render, until } from "./render";
import { type Handler, problem, serve } from "./server";

const ok = (data: object) => ({ status: "ok", operation: "o", data });
const money = { amount_minor: 100, currency: "EUR" };
const times = { created_at: "2026-01-05T09:00:00Z", updated_at: "2026-01-05T09:00:00Z", urn: "urn:x" };
const allocation = { id: "a", name: "calm-otter", status: "active", sku: "t4", gpus: 1, region: "eu-1", login: "u1", price: money, cost: money, labels: {}, version: 1, status_at: times.created_at, active_at: times.created_at, conditions: [], ...times };
const project = { id: "p", name: "speech", description: "", role: "admin", version: 1, ...times };

const routes = (role: string, more: Record<string, Handler> = {}): Record<string, Handler> => ({
  "GET /api/v1/users/me": () => ({ body: { actor_type: "user", user: { id: "me", email: "dev@x", name: "Dev" }, tenant: { id: "t", name: "t", role } } }),
  "GET /api/v1/projects": () => ({ body: { items: [project] } }),
  "GET /api/v1/allocations": () => ({ body: { items: [allocation] } }),
  "GET /api/v3/compute/allocations/a": () => ({ body: { allocation: ok(allocation), timeline: ok({ items: [] }), why: ok({}), faults: ok({ items: [] }), telemetry: ok({ gpus: [] }) } }),
  "*": () => ({ body: { items: [] } }),
  ...more,
});

async function open(path: string) {
  const router = newRouter(createMemoryHistory({ initialEntries: [`/portal${path}`] }));
  await render(<RouterProvider router={router as never} />);
  return router;
}

const shows = (text: string) => until(() => document.body.textContent?.includes(text) === true);
const press = (key: string, more: KeyboardEventInit = {}, target: EventTarget = document.activeElement ?? document.body) =>
  act(async () => void target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...more })));
const field = () => document.querySelector<HTMLInputElement>('[role="combobox"]');
const type = (text: string) =>
  act(async () => {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")!.set!.call(field(), text);
    field()!.dispatchEvent(new Event("input", { bubbles: true }));
  });
const options = () => [...document.querySelectorAll('[role="option"]')].map(({ textContent }) => textContent);
const active = () => document.getElementById(field()?.getAttribute("aria-activedescendant") ?? "")?.textContent;

async function palette() {
  await press("k", { ctrlKey: true });
  await until(() => field() !== null);
}

test("the palette goes to a screen by its keys alone", async () => {
  serve(routes("owner"));
  const router = await open("/allocations");
  await shows("calm-otter");
  await palette();
  await type("bill");
  expect(options()).toEqual(["Billing"]);
  expect(active()).toBe("Billing");
  await press("Enter", {}, field()!);
  await until(() => router.state.location.pathname === "/billing" || router.state.location.pathname === "/portal/billing");
  await until(() => field() === null);
});

const reader = { "GET /api/v1/projects": () => ({ body: { items: [{ ...project, role: "viewer" }] } }) };

test("the palette offers no screen that the user may not read", async () => {
  serve(routes("viewer", reader));
  await open("/projects");
  await shows("speech");
  await palette();
  expect(options()).toContain("Keys");
  for (const hidden of ["Members", "Fleet", "Launch"]) expect(options()).not.toContain(hidden);
});

test("arrows move in a circle, and Escape returns the focus", async () => {
  vi.spyOn(Element.prototype, "scrollIntoView").mockImplementation((() => Promise.resolve()) as never);
  serve(routes("owner"));
  await open("/allocations");
  await shows("calm-otter");
  const before = button("Filter");
  before?.focus();
  await palette();
  await type("e");
  const all = options();
  await press("ArrowUp", {}, field()!);
  expect(active()).toBe(all.at(-1));
  await press("ArrowDown", {}, field()!);
  expect(active()).toBe(all[0]);
  await press("Escape", {}, field()!);
  await until(() => field() === null);
  expect(document.activeElement).toBe(before);
});

test("the palette acts on the current object, with its dialog", async () => {
  serve(routes("owner"));
  await open("/allocations/a");
  await until(() => button("Release") !== undefined);
  await palette();
  await type("release");
  await press("Enter", {}, field()!);
  await until(() => document.querySelector('[role="dialog"]')?.textContent?.includes("Release calm-otter") === true);
});

test("the palette copies the id and the URN of the current object", async () => {
  const copied = vi.spyOn(navigator.clipboard, "writeText").mockResolvedValue();
  serve(routes("owner"));
  await open("/allocations/a");
  await until(() => button("Release") !== undefined);
  for (const what of ["copy the urn", "copy the id"]) {
    await palette();
    await type(what);
    await press("Enter", {}, field()!);
    await until(() => field() === null);
    await pause(5);
  }
  expect(copied.mock.calls.flat()).toEqual(["urn:x", "a"]);
});

test("the palette searches on the server by a part of the name, and a failed search hides no result", async () => {
  const calls = serve(routes("owner", { "GET /api/v1/projects": (request) => (new URL(request.url).searchParams.has("q") ? problem(500, "internal") : { body: { items: [project] } }) }));
  const router = await open("/projects");
  await shows("speech");
  await palette();
  await type("otter");
  await until(() => options().includes("calm-otter"));
  const asked = calls.map(({ url }) => new URL(url)).filter(({ searchParams }) => searchParams.get("q") === "otter");
  expect(asked.map(({ pathname }) => pathname).sort()).toEqual(["/api/v1/allocations", "/api/v1/projects"]);
  // The result of the last search is none of a text that it does not fit.
  await type("llama");
  expect(options()).not.toContain("calm-otter");
  await type("otter");
  await until(() => options().includes("calm-otter"));
  await press("Enter", {}, field()!);
  await until(() => router.state.location.pathname.endsWith("/allocations/a"));
});

test("objects that a user has opened are recent, for this user only", async () => {
  localStorage.setItem("gpuaas.recent.me", JSON.stringify([{ path: "javascript:alert(1)", name: "x" }, null, { path: "/projects/p", name: "speech" }]));
  serve(routes("owner"));
  await open("/allocations/a");
  await until(() => button("Release") !== undefined);
  expect(recentOf("me")).toEqual([{ path: "/allocations/a", name: "calm-otter" }, { path: "/projects/p", name: "speech" }]);
  expect(recentOf("another")).toEqual([]);
  await palette();
  expect(document.querySelector('[aria-label="Recent"]')?.textContent).toContain("speech");
});

test("a click with a modifier opens a result in a new tab", async () => {
  const opened = vi.spyOn(window, "open").mockReturnValue(null);
  serve(routes("owner"));
  await open("/projects");
  await shows("speech");
  await palette();
  await type("keys");
  await press("Enter", { metaKey: true }, field()!);
  await until(() => opened.mock.calls.length === 1);
  expect(opened).toHaveBeenCalledWith("/portal/keys", "_blank", "noopener");
});

test("a click with a modifier on a row opens no screen here", async () => {
  serve(routes("owner"));
  const router = await open("/allocations");
  await shows("calm-otter");
  const link = [...document.querySelectorAll("a")].find(({ textContent }) => textContent === "calm-otter")!;
  expect(link.getAttribute("href")).toBe("/portal/allocations/a");
  for (const how of [{ metaKey: true }, { ctrlKey: true }, { button: 1 }]) {
    const event = new MouseEvent("click", { bubbles: true, cancelable: true, ...how });
    await act(async () => void link.dispatchEvent(event));
    expect(router.state.location.pathname.endsWith("/allocations")).toBe(true);
  }
});

test("the help sheet lists the shortcuts of the table, which are distinct", async () => {
  const all = [...shortcuts.screens, ...shortcuts.tools].map(({ keys }) => keys);
  expect(new Set(all).size).toBe(all.length);
  expect(shortcuts.screens).toHaveLength(screens.length);
  expect([keysOf("g a"), keysOf("mod+k"), keysOf("?")]).toEqual([["g", "a"], ["Ctrl", "K"], ["?"]]);
  serve(routes("viewer"));
  await open("/projects");
  await shows("speech");
  await press("?");
  await until(() => document.querySelector('[role="dialog"]') !== null);
  const text = document.querySelector('[role="dialog"]')?.textContent;
  expect(text).toContain("Open Keys");
  expect(text).not.toContain("Open Fleet");
});

test("keys without the modifier can be turned off", async () => {
  serve(routes("owner"));
  const router = await open("/projects");
  await shows("speech");
  setPreference("shortcuts", "off");
  await press("?");
  await press("g");
  await press("k");
  await pause(20);
  expect(document.querySelector('[role="dialog"]')).toBeNull();
  expect(router.state.location.pathname.endsWith("/projects")).toBe(true);
  await palette();
});

test("the address has the visible columns, and a wrong one hides nothing", async () => {
  serve(routes("owner"));
  const router = await open("/allocations");
  await shows("calm-otter");
  const headers = () => [...document.querySelectorAll("th")].map(({ textContent }) => textContent);
  const every = headers();
  await click([...document.querySelectorAll("label")].find(({ textContent }) => textContent === "Region"));
  await until(() => !headers().includes("Region"));
  expect((router.state.location.search as { columns?: string }).columns).toBe("status,sku,gpus,rate,cost,created,expires");
  await act(() => router.navigate({ to: "/allocations", search: { columns: "nothing,<img>" } }));
  await until(() => headers().length === every.length);
  await act(() => router.navigate({ to: "/allocations", search: { columns: "sku" } }));
  await until(() => headers().join() === ["Select", "Name", "SKU"].join());
});

test("a view has a name, stays in this browser, and is removed", async () => {
  serve(routes("owner"));
  const router = await open("/allocations?status=active&columns=sku");
  await shows("calm-otter");
  await enter("Name of this view", "mine");
  await click(button("Save this view"));
  expect(viewsOf("me", "allocations")).toEqual([{ name: "mine", search: { status: "active", columns: "sku" } }]);
  const link = [...document.querySelectorAll("a")].find(({ textContent }) => textContent === "mine");
  expect(link?.getAttribute("href")).toBe("/portal/allocations?status=active&columns=sku");
  await act(() => router.navigate({ to: "/allocations" }));
  await click([...document.querySelectorAll("a")].find(({ textContent }) => textContent === "mine"));
  await until(() => (router.state.location.search as { status?: string }).status === "active");
  await click(document.querySelector('[aria-label="Remove the view mine"]'));
  expect(viewsOf("me", "allocations")).toEqual([]);
});

test("a view works without the storage of the browser, and says so", async () => {
  const blocked = () => {
    throw new Error("blocked");
  };
  const storage = localStorage;
  vi.stubGlobal("localStorage", { getItem: blocked, setItem: blocked, removeItem: blocked });
  serve(routes("owner"));
  await open("/allocations");
  await shows("calm-otter");
  await enter("Name of this view", "mine");
  await click(button("Save this view"));
  await shows("The browser does not store the views.");
  expect([...document.querySelectorAll("a")].some(({ textContent }) => textContent === "mine")).toBe(true);
  vi.stubGlobal("localStorage", storage);
});

test("stored views that another program has changed are ignored", () => {
  for (const text of ["null", "{}", "[1, null, {}]", '[{"name":"x","search":{"a":{}}}]', "[{"]) {
    localStorage.setItem("gpuaas.views.me.allocations", text);
    expect(viewsOf("me", "allocations")).toEqual([]);
  }
});

test("a relative time shows the absolute one on hover and focus", async () => {
  serve(routes("owner"));
  await open("/allocations");
  await shows("calm-otter");
  const time = document.querySelector("time")!;
  expect(time.textContent).toMatch(/ago|in /);
  expect(time.title).toMatch(/2026/);
  expect(time.dataset["absolute"]).toBe(time.title);
  expect(time.tabIndex).toBe(0);
});

test("paper has every row of a long list", async () => {
  const items = Array.from({ length: 150 }, (_, index) => ({ ...allocation, id: `a${index}`, name: `otter-${index}` }));
  serve(routes("owner", { "GET /api/v1/allocations": () => ({ body: { items } }) }));
  await open("/allocations");
  await until(() => document.querySelector("table") !== null);
  const rows = () => document.querySelectorAll("tbody tr[aria-rowindex]").length;
  expect(rows()).toBeLessThan(150);
  await act(async () => void dispatchEvent(new Event("beforeprint")));
  expect(rows()).toBe(150);
  await act(async () => void dispatchEvent(new Event("afterprint")));
  expect(rows()).toBeLessThan(150);
});
