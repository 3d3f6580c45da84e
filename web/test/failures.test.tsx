import { act } from "react";
import { afterEach, expect, test, vi } from "vitest";
import { shell } from "../src/i18n/en/shell";
import { Crashed } from "../src/routes/crashed";
import { button, click, enter, render, until } from "./render";
import { changed, everything, has, loaded, open, signedIn, succeeding, text } from "./screen";
import { type Handler, problem, serve } from "./server";

afterEach(() => void vi.useRealTimers());

const dated =
  (date: Date, reply: Handler): Handler =>
  async (request) => ({ ...(await reply(request)), headers: { Date: date.toUTCString() } });

// An allocation whose state began 5 minutes ago, for the clock of the server.
const at = (time: Date): Handler => changed(({ format }, value) => (format === "date-time" ? new Date(time.getTime() - 330_000).toISOString() : value));

test("a clock that is wrong by an hour changes no age", async () => {
  const now = new Date();
  const shown = async (clock: number) => {
    vi.setSystemTime(clock);
    document.body.replaceChildren();
    serve(signedIn(everything, dated(now, at(now))));
    await open("/allocations");
    await loaded();
    return [...document.querySelectorAll("time")].map(({ textContent }) => textContent);
  };
  const right = await shown(now.getTime());
  expect(right.length).toBeGreaterThan(0);
  expect(await shown(now.getTime() + 3_600_000)).toEqual(right);
  expect(await shown(now.getTime() - 3_600_000)).toEqual(right);
});

const create = () => click(button("Create the project"));
const created = (calls: Request[]) => calls.find(({ method, url }) => method === "POST" && url.endsWith("/api/v1/projects"));

test("a session that ends in a form leaves its input, which is sent after the sign-in", async () => {
  serve({ ...signedIn(everything, succeeding), "POST /api/v1/projects": () => problem(401, "token_expired") });
  await open("/projects");
  await loaded();
  await enter("Name *", "speech");
  await create();
  await until(() => has('a[href^="/sign-in"]'));
  expect([...document.querySelectorAll("input")].some(({ value }) => value === "speech")).toBe(true);
  document.body.replaceChildren();
  const calls = serve(signedIn(everything, succeeding));
  await open("/projects");
  await loaded();
  await create();
  await until(() => created(calls) !== undefined);
  expect(await created(calls)?.json()).toMatchObject({ name: "speech" });
});

test("a browser that blocks its storage sends a form", async () => {
  const stored = [localStorage, sessionStorage];
  const blocked = () => {
    throw new DOMException("blocked", "SecurityError");
  };
  for (const name of ["localStorage", "sessionStorage"]) vi.stubGlobal(name, { getItem: blocked, setItem: blocked, removeItem: blocked, key: blocked });
  try {
    const calls = serve(signedIn(everything, succeeding));
    await open("/projects");
    await loaded();
    await enter("Name *", "speech");
    await create();
    await until(() => created(calls) !== undefined);
    expect(await created(calls)?.json()).toMatchObject({ name: "speech" });
  } finally {
    ["localStorage", "sessionStorage"].forEach((name, index) => vi.stubGlobal(name, stored[index]));
  }
});

test("a notice of the platform is text, and a broken one is none", async () => {
  const noticed = async (header: string) => {
    document.body.replaceChildren();
    serve(signedIn(everything, async (request) => ({ ...(await succeeding(request)), headers: { "X-Platform-Notice": header } })));
    await open("/allocations");
    await loaded();
  };
  const notice = '\u202e<a href="javascript:executed()">here</a> https://evil.example';
  await noticed(encodeURIComponent(notice));
  await until(() => text().includes(notice));
  expect(has('a[href*="evil"], a[href^="javascript"]')).toBe(false);
  await noticed("%zz");
  await until(() => !text().includes("evil"));
  expect(text()).not.toContain("Notice:");
  expect(has('[data-state="error"]')).toBe(false);
});

test("a part that the server no longer has leads to a reload, and other errors do not", async () => {
  const reload = vi.spyOn(location, "reload").mockImplementation(() => {});
  await render(<Crashed error={new TypeError("Failed to fetch dynamically imported module: http://localhost/portal/assets/home-x.js")} reset={() => {}} />);
  expect(text()).toContain("A new version of the portal is available");
  await click(button("Reload"));
  expect(reload).toHaveBeenCalledTimes(1);
  document.body.replaceChildren();
  await render(<Crashed error={new Error("broken")} reset={() => {}} />);
  expect(text()).toContain("This screen failed");
});

test("without a network the page says so, and keeps what it shows", async () => {
  serve(signedIn(everything, succeeding));
  await open("/allocations");
  await loaded();
  const rows = document.querySelectorAll("tbody tr").length;
  await act(async () => void dispatchEvent(new Event("offline")));
  expect(text()).toContain(shell.offline);
  expect(document.querySelectorAll("tbody tr").length).toBe(rows);
  await act(async () => void dispatchEvent(new Event("online")));
  expect(text()).not.toContain(shell.offline);
});
