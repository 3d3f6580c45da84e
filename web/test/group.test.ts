import { afterEach, expect, test, vi } from "vitest";
import { type Leader, join } from "../src/stream/group";

const wait = (milliseconds = 20) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// lockManager replaces the locks of one browser: the first request has the lock, until its promise is settled.
function lockManager(blocked = false) {
  let queue = Promise.resolve();
  const request = (_: string, { signal }: { signal: AbortSignal }, run: () => Promise<void>) => {
    if (blocked) return Promise.reject(new DOMException("blocked", "SecurityError"));
    return (queue = queue.then(() => (signal.aborted ? undefined : run())));
  };
  vi.stubGlobal("navigator", { locks: { request } });
}

type Tab = { received: string[]; tell?: (message: string) => void; leads: boolean; leave: () => void };

const tabs: Tab[] = [];

function openTab(): Tab {
  const tab: Tab = { received: [], leads: false, leave: () => {} };
  const lead = (tell: (message: string) => void): Leader => {
    Object.assign(tab, { leads: true, tell });
    return { greet: () => tell("state"), stop: () => void (tab.leads = false) };
  };
  tab.leave = join("group", (message: string) => void tab.received.push(message), lead);
  tabs.push(tab);
  return tab;
}

afterEach(() => {
  tabs.splice(0).forEach(({ leave }) => leave());
  vi.unstubAllGlobals();
});

test("one tab leads, and all receive", async () => {
  lockManager();
  const [first, second, third] = [openTab(), openTab(), openTab()];
  await wait();
  expect([first, second, third].map(({ leads }) => leads)).toEqual([true, false, false]);
  first.tell!("event");
  await wait();
  for (const { received } of [first, second, third]) expect(received).toContain("event");
  expect(first.received.filter((each) => each === "event")).toHaveLength(1);
});

test("a tab that joins later receives the state", async () => {
  lockManager();
  openTab();
  await wait();
  const late = openTab();
  await wait();
  expect(late.received).toContain("state");
});

test("after the leader is closed, the next tab leads", async () => {
  lockManager();
  const [first, second, third] = [openTab(), openTab(), openTab()];
  await wait();
  second.leave();
  first.leave();
  await wait();
  expect([first, second, third].map(({ leads }) => leads)).toEqual([false, false, true]);
});

test("without channels, and with blocked storage, each tab leads alone", async () => {
  vi.stubGlobal("navigator", { locks: { request: () => Promise.resolve() } });
  vi.stubGlobal("BroadcastChannel", undefined);
  expect([openTab().leads, openTab().leads]).toEqual([true, true]);
  vi.unstubAllGlobals();
  lockManager(true);
  const tab = openTab();
  await wait();
  expect(tab.leads).toBe(true);
  tab.leave();
  expect(tab.leads).toBe(false);
});

test("a tab that leads alone has no connection while it is hidden", async () => {
  vi.stubGlobal("BroadcastChannel", undefined);
  const tab = openTab();
  const visibility = vi.spyOn(document, "visibilityState", "get");
  for (const [state, leads] of [["hidden", false], ["visible", true]] as const) {
    visibility.mockReturnValue(state);
    document.dispatchEvent(new Event("visibilitychange"));
    expect(tab.leads).toBe(leads);
  }
});
