import { send } from "../api/fetch";
import { type StreamEvent, readEvents } from "./sse";
import type { State } from "./state";
import { readSocket } from "./websocket";

// Scope is whose events the user reads: those of all tenants, or what the user may read in the own tenant.
export type Scope = "tenant" | "platform";

// Message is what the tab with the connection sends to all tabs of its group. After missed, events are not in the stream.
// After denied, the user has no session, or other rights.
export type Message = { kind: "event"; event: StreamEvent } | { kind: "missed" | "denied" } | { kind: "state"; state: State; failures: number; cursor: string };

// Times in milliseconds. The server sends a heartbeat after 15 seconds. A longer silence means that the connection is lost.
const silence = 40_000;
const suspicious = 20_000;
// A connection that lasted shorter counts as a failed one: a proxy that cuts each connection would be called without a pause.
const lasting = 5_000;
// The server sends the first part of the body at once. A network that holds it back for this time gets a websocket.
const firstPart = 10_000;
const delays = { first: 500, longest: 30_000 };

// delayOf has a random part, so that all clients do not come at once after a restart of the server.
const delayOf = (failures: number, retryAfter: number) => Math.max(retryAfter * 1_000, Math.min(delays.longest, delays.first * 2 ** failures) * (0.5 + Math.random() / 2));

// As of the client of the API: that of the page when it was loaded.
const { origin } = location;

function urlOf(path: string, scope: Scope, cursor: string) {
  const url = new URL(path, origin);
  if (scope === "platform") url.searchParams.set("scope", scope);
  if (cursor !== "") url.searchParams.set("since", cursor);
  return url;
}

const requestOf = (scope: Scope, cursor: string, signal: AbortSignal) => new Request(urlOf("/api/v1/events", scope, cursor), { signal, headers: { Accept: "text/event-stream" } });

// The address of a websocket has the scheme that belongs to the one of the page.
function socketOf(scope: Scope, cursor: string) {
  const url = urlOf("/ws/events", scope, cursor);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url;
}

// follow reads the stream until it is stopped. It resumes after the last event that it has received.
export function follow(scope: Scope, cursor: string, tell: (message: Message) => void) {
  const stopped = new AbortController();
  let connection = new AbortController();
  let state: State = "connecting";
  let failures = 0;
  let heardAt = 0;
  // heldBack is set after a body without its first part, until a websocket fails.
  let heldBack = false;
  let unread: StreamEvent | undefined;
  let wake = () => {};
  const pause = (milliseconds?: number) =>
    new Promise<void>((resolve) => {
      wake = resolve;
      if (milliseconds !== undefined) setTimeout(resolve, milliseconds);
    });
  const report = (next = state) => {
    state = next;
    if (!stopped.signal.aborted) tell({ kind: "state", state, failures, cursor });
  };
  const heard = () => void (heardAt = Date.now());

  async function read(source: (part: () => void, each: (event: StreamEvent) => void) => Promise<void>) {
    let openedAt = Infinity;
    // A proxy can hold back the body. The stream works with its first part, which the server sends at once.
    const first = () => {
      openedAt = Date.now();
      report("live");
      // Without a position, what happened before this moment is not in the stream.
      if (cursor === "") tell({ kind: "missed" });
    };
    const part = () => {
      heard();
      if (openedAt === Infinity) first();
    };
    const each = (event: StreamEvent) => {
      if (event.id !== "") cursor = event.id;
      if (event.subject === "unread") unread = event;
      tell({ kind: "event", event });
    };
    const late = setTimeout(() => openedAt === Infinity && connection.abort(), firstPart);
    await source(part, each).catch(() => {});
    clearTimeout(late);
    heldBack = heldBack !== (openedAt === Infinity);
    failures = Date.now() - openedAt > lasting ? 0 : failures + 1;
    report(failures > 1 ? "polling" : "connecting");
  }

  // once opens one connection, and returns how long to wait after its end. undefined waits for the user.
  async function once(): Promise<number | undefined> {
    connection = new AbortController();
    heard();
    if (heldBack) {
      const { signal } = connection;
      await read((part, each) => readSocket(socketOf(scope, cursor), signal, part, each));
      return delayOf(failures, 0);
    }
    const response = await send(requestOf(scope, cursor, connection.signal)).catch(() => undefined);
    const { ok = false, status = 0, body = null } = response ?? {};
    if (ok && body !== null) return read((part, each) => readEvents(body, part, each)).then(() => delayOf(failures, 0));
    failures++;
    if (cursor !== "" && (status === 404 || status === 400)) {
      // The event is not stored any more.
      cursor = "";
      return 0;
    }
    const denied = status === 401 || status === 403;
    report(status === 401 ? "ended" : denied || failures > 1 ? "polling" : "connecting");
    if (denied) tell({ kind: "denied" });
    return denied ? undefined : delayOf(failures, Number(response?.headers.get("Retry-After")) || 0);
  }

  async function run() {
    while (!stopped.signal.aborted) await pause(await once());
  }

  // A computer that slept has a dead connection, and a timer that did not run.
  const check = (limit: number) => void (Date.now() - heardAt > limit && connection.abort());
  const returned = () => {
    if (document.visibilityState !== "visible") return;
    wake();
    check(suspicious);
  };
  const watch = setInterval(() => check(silence), 5_000);
  const signal = stopped.signal;
  for (const name of ["online", "focus", "pageshow"]) addEventListener(name, returned, { signal });
  document.addEventListener("visibilitychange", returned, { signal });
  void run();
  return {
    greet: () => {
      report();
      if (unread !== undefined) tell({ kind: "event", event: unread });
    },
    stop: () => {
      stopped.abort();
      clearInterval(watch);
      connection.abort();
      wake();
    },
  };
}
