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

test("a session that ends in a form leaves its input, also after the sign-in", async () => {
  serve({ ...signedIn(everything, succeeding), "POST /api/v1/projects": () => problem(401, "token_expired") });
  await open("/projects");
  await loaded();
  await enter("Name *", "speech");
  await click(button("Create the project"));
  await until(() => has('a[href^="/sign-in"]'));
  const name = () => [...document.querySelectorAll("input")].some(({ value }) => value === "speech");
  expect(name()).toBe(true);
  document.body.replaceChildren();
  await open("/projects");
  await loaded();
  expect(name()).toBe(true);
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
