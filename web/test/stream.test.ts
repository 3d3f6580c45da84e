import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { readFileSync } from "node:fs";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { selectProject } from "../src/api/project";
import { newQueryClient } from "../src/query/client";
import { keys, refetch } from "../src/query/keys";
import { startLive } from "../src/stream/live";
import { refresh } from "../src/stream/refresh";
import { isLive, setConnection } from "../src/stream/state";
import { keysOf, table, unshown } from "../src/stream/table";
import { currentUnread } from "../src/stream/unread";
import { serveStream } from "./stream";

const notFound = () => new Response("{}", { status: 404 });
const urn = "core42:aicloud:eu-1:t:p:allocation:a1";

// Each client is a tab. Its screen shows the allocation a1, and counts how often it is read.
function tab(user = "u", scope: Parameters<typeof startLive>[2] = "tenant") {
  const client = newQueryClient();
  const read = vi.fn((): Promise<string> => Promise.resolve("data"));
  const observer = new QueryObserver(client, { queryKey: keys.allocation("a1"), queryFn: read, refetchInterval: refetch.live });
  const ends = [observer.subscribe(() => {}), startLive(client, user, scope), () => client.clear()];
  const close = () => ends.splice(0).forEach((end) => end());
  closing.push(close);
  return { client, read, close };
}

const closing: (() => void)[] = [];
const pass = (milliseconds: number) => vi.advanceTimersByTimeAsync(milliseconds);

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  closing.splice(0).forEach((close) => close());
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("each subject of the contract changes a query, or is listed as shown by no screen", () => {
  const contract = readFileSync("../api/asyncapi/asyncapi.yaml", "utf8");
  const subjects = [...contract.matchAll(/^ {4}address: (.+)$/gm)].map(([, subject]) => subject!);
  expect(subjects.length).toBeGreaterThan(30);
  expect([...Object.keys(table), ...Object.keys(unshown)].sort()).toEqual(subjects.sort());
});

test("an event changes its own object, and no other", () => {
  const changed = keysOf({ id: "1", subject: "provisioning.expiring", payload: { urn } });
  expect(changed).toContainEqual(keys.allocation("a1"));
  expect(changed).not.toContainEqual(keys.allocations);
  expect(keysOf({ id: "1", subject: "fleet.object_changed", payload: { kind: "Node", name: "n7" } })).toContainEqual(keys.node("n7"));
  expect(keysOf({ id: "1", subject: "fleet.plan_decided", payload: { plan_id: "c" } })).toContainEqual(keys.change("c"));
});

test("an event of a newer server, and one without its fields, break nothing", () => {
  expect(keysOf({ id: "1", subject: "souls.harvested", payload: {} })).toEqual([[]]);
  for (const subject of Object.keys(table)) expect(Array.isArray(keysOf({ id: "1", subject, payload: { urn: 7, kind: null, allocation_ids: "x" } }))).toBe(true);
});

test("a connection without a heartbeat is replaced", async () => {
  const { opened } = serveStream(notFound);
  tab();
  await pass(35_000);
  expect(opened).toHaveLength(1);
  await pass(15_000);
  expect(opened).toHaveLength(2);
  expect(isLive()).toBe(true);
});

test("nothing is polled in ten minutes of a working stream", async () => {
  const { opened } = serveStream(notFound);
  const { read } = tab();
  await pass(1_000);
  const before = read.mock.calls.length;
  for (let minute = 0; minute < 40; minute++) {
    opened[0]!.send(`x${minute}`, "fleet.mass_action_stopped");
    await pass(15_000);
  }
  expect(isLive()).toBe(true);
  expect(opened).toHaveLength(1);
  expect(read.mock.calls.length).toBe(before);
  opened[0]!.send("e1", "provisioning.active", { urn });
  await pass(100);
  expect(read.mock.calls.length).toBe(before + 1);
});

test("a burst of 500 events in ten seconds is at most 21 readings", async () => {
  const { opened } = serveStream(notFound);
  const { read } = tab();
  await pass(1_000);
  const before = read.mock.calls.length;
  for (let number = 0; number < 500; number++) {
    opened[0]!.send(`e${number}`, "provisioning.active", { urn });
    await pass(20);
  }
  await pass(1_000);
  expect(read.mock.calls.length - before).toBeGreaterThan(10);
  expect(read.mock.calls.length - before).toBeLessThanOrEqual(22);
});

test("a connection that was cut resumes after its last event, and reads nothing else", async () => {
  const { opened } = serveStream(notFound);
  const { read } = tab();
  await pass(1_000);
  opened[0]!.send("e1", "fleet.mass_action_stopped");
  await pass(6_000);
  const before = read.mock.calls.length;
  opened[0]!.cut();
  await pass(2_000);
  expect(opened[1]!.url.searchParams.get("since")).toBe("e1");
  opened[1]!.send("e2", "provisioning.active", { urn });
  await pass(100);
  expect(read.mock.calls.length).toBe(before + 1);
});

test("a position that the server no longer stores reads everything again", async () => {
  const { opened, attempts } = serveStream(notFound, 200, 404, 200);
  const { read } = tab();
  await pass(1_000);
  opened[0]!.send("e1", "fleet.mass_action_stopped");
  await pass(6_000);
  const before = read.mock.calls.length;
  opened[0]!.cut();
  await pass(3_000);
  expect(attempts.map(({ searchParams }) => searchParams.get("since"))).toEqual([null, "e1", null]);
  expect(isLive()).toBe(true);
  expect(read.mock.calls.length).toBe(before + 1);
});

test("a laptop that returns replaces its dead connection and catches up", async () => {
  const { opened } = serveStream(notFound);
  tab();
  await pass(1_000);
  opened[0]!.send("e1", "fleet.mass_action_stopped");
  await pass(100);
  vi.setSystemTime(Date.now() + 3_600_000);
  window.dispatchEvent(new Event("focus"));
  await pass(2_000);
  expect(opened.map(({ url }) => url.searchParams.get("since"))).toEqual([null, "e1"]);
});

test("without a stream the screens poll with backoff, and stop once it works", async () => {
  const { opened } = serveStream(notFound, ...Array<number>(12).fill(0), 200);
  const { read } = tab();
  setInterval(() => opened.at(-1)?.beat(), 15_000);
  await pass(60_000);
  const first = read.mock.calls.length;
  expect(first).toBeGreaterThan(1);
  await pass(60_000);
  expect(read.mock.calls.length - first).toBeLessThan(first);
  await pass(240_000);
  expect(opened.length).toBeGreaterThan(0);
  const { length } = read.mock.calls;
  opened.at(-1)!.send("x", "fleet.mass_action_stopped");
  await pass(30_000);
  expect(read.mock.calls.length).toBe(length);
});

test("behind a proxy that holds back the body the stream is not live, and the screens poll", async () => {
  serveStream(notFound, -1);
  const { read } = tab();
  await pass(120_000);
  const { length } = read.mock.calls;
  expect(isLive()).toBe(false);
  await pass(120_000);
  expect(read.mock.calls.length).toBeGreaterThan(length);
});

test("behind such a proxy the events arrive over a websocket, which resumes after the last one", async () => {
  const sockets: { url: URL; protocol: string; onopen?: () => void; onmessage?: (message: { data: string }) => void; onclose?: () => void; close: () => void }[] = [];
  vi.stubGlobal(
    "WebSocket",
    class {
      constructor(
        readonly url: URL,
        readonly protocol: string,
      ) {
        sockets.push(this);
      }
      onclose?: () => void;
      close() {
        this.onclose?.();
      }
    },
  );
  serveStream(notFound, -1);
  const { read } = tab();
  await pass(12_000);
  expect(sockets.map(({ url, protocol }) => [url.protocol, url.pathname, protocol])).toEqual([["ws:", "/ws/events", "gpuaas.events.v1"]]);
  sockets[0]!.onopen!();
  await pass(100);
  expect(isLive()).toBe(true);
  const before = read.mock.calls.length;
  for (const data of ["x", "[]", JSON.stringify({ event_id: "e7", event_type: "provisioning.active", payload: { urn } })]) sockets[0]!.onmessage!({ data });
  await pass(600);
  expect(read.mock.calls.length).toBe(before + 1);
  await pass(6_000);
  sockets[0]!.close();
  await pass(2_000);
  expect(sockets[1]!.url.searchParams.get("since")).toBe("e7");
});

test("the number of unread notifications reaches the page, and moves no position", async () => {
  const { opened } = serveStream(notFound);
  const { client } = tab();
  const list = vi.fn(() => Promise.resolve([]));
  new QueryObserver(client, { queryKey: keys.notifications, queryFn: list, staleTime: Number.POSITIVE_INFINITY }).subscribe(() => {});
  await pass(1_000);
  opened[0]!.send("e1", "fleet.mass_action_stopped");
  const before = list.mock.calls.length;
  opened[0]!.item("unread", { unread: 3 });
  await pass(600);
  expect(currentUnread()).toBe(3);
  expect(list.mock.calls.length).toBe(before + 1);
  opened[0]!.item("notification", { id: "n" });
  await pass(6_000);
  expect(list.mock.calls.length).toBe(before + 2);
  opened[0]!.cut();
  await pass(2_000);
  expect(opened[1]!.url.searchParams.get("since")).toBe("e1");
});

test("what failed while the server was away is read again once it is back", async () => {
  serveStream(notFound, 0, 0, 0, 200);
  const { client } = tab();
  const read = vi.fn(() => Promise.reject(new Error("lost")));
  new QueryObserver<unknown>(client, { queryKey: ["other"], queryFn: read, retry: false }).subscribe(() => {});
  await pass(200);
  expect(read).toHaveBeenCalledTimes(1);
  read.mockResolvedValue("data" as never);
  await pass(30_000);
  expect(client.getQueryData(["other"])).toBe("data");
});

test("ended rights end the stream, and read the user again", async () => {
  const { attempts } = serveStream(notFound, 200, 403);
  const { client } = tab();
  const me = vi.fn(() => Promise.resolve("me"));
  new QueryObserver(client, { queryKey: keys.me, queryFn: me, staleTime: Number.POSITIVE_INFINITY }).subscribe(() => {});
  await pass(50_000);
  const asked = me.mock.calls.length;
  expect(asked).toBeGreaterThan(1);
  const count = attempts.length;
  await pass(600_000);
  expect(attempts).toHaveLength(count);
  window.dispatchEvent(new Event("focus"));
  await pass(100);
  expect(attempts).toHaveLength(count + 1);
});

test("a change during the first reading is read after it", async () => {
  const client = new QueryClient();
  const responses: ((text: string) => void)[] = [];
  const read = vi.fn(() => new Promise<string>((resolve) => responses.push(resolve)));
  new QueryObserver(client, { queryKey: ["a"], queryFn: read }).subscribe(() => {});
  refresh(client, ["a"]);
  refresh(client, ["a"]);
  expect(read).toHaveBeenCalledTimes(1);
  responses[0]!("old");
  await pass(10);
  expect(read).toHaveBeenCalledTimes(2);
  responses[1]!("new");
  await pass(10);
  expect(client.getQueryData(["a"])).toBe("new");
  expect(read).toHaveBeenCalledTimes(2);
});

test("the stream has all that the user may read, whichever project is selected", async () => {
  selectProject("p1");
  const { opened } = serveStream(notFound);
  tab("u", "platform");
  tab("v", "tenant");
  await pass(100);
  expect(opened.map(({ url, headers }) => [url.searchParams.get("scope"), headers.get("X-Project-ID")])).toEqual([["platform", null], [null, null]]);
  setConnection({ state: "connecting", failures: 0 });
});
