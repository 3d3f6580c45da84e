import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Access, Connection, type State } from "../src/terminal/connection";
import { bearerOf, messageOf } from "../src/terminal/protocol";
import { newLeaving } from "../src/terminal/leave";
import { linesOf } from "../src/terminal/lines";

// Socket is the end of the browser; the test is the server.
class Socket {
  static readonly OPEN = 1;
  static all: Socket[] = [];
  readonly OPEN = 1;
  readyState = 0;
  binaryType = "";
  sent: unknown[] = [];
  onmessage: ((event: { data: unknown }) => void) | undefined;
  onclose: ((event: { code: number }) => void) | undefined;
  constructor(readonly url: string, readonly protocols: string[]) {
    Socket.all.push(this);
  }
  send(data: unknown) {
    this.sent.push(data);
  }
  close(code = 1005) {
    this.cut(code);
  }
  accept(message: object) {
    this.readyState = 1;
    this.onmessage?.({ data: JSON.stringify(message) });
  }
  cut(code: number) {
    if (this.readyState === 3) return;
    this.readyState = 3;
    this.onclose?.({ code });
  }
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("WebSocket", Socket);
  Socket.all = [];
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const granted: Access = { token: "gpt_secret", url: "wss://api.example/ws/terminal/1" };

function opened(access: Access = granted, session?: string) {
  const states: State[] = [];
  const asked: (string | undefined)[] = [];
  const output: number[] = [];
  const connection = new Connection({
    access: (current) => {
      asked.push(current);
      return Promise.resolve(access);
    },
    output: (bytes) => output.push(...bytes),
    started: () => {},
    state: (state) => states.push(state),
    ...(session === undefined ? {} : { session }),
  });
  const last = () => states.at(-1)!;
  const socket = async () => {
    await vi.advanceTimersByTimeAsync(0);
    return Socket.all.at(-1)!;
  };
  return { connection, states, asked, output, last, socket };
}

test("the token is a subprotocol and no part of the address", async () => {
  const { socket } = opened();
  const one = await socket();
  expect(one.url).toBe("wss://api.example/ws/terminal/1");
  expect(one.protocols).toEqual(["gpuaas.terminal.v1", "gpuaas.bearer.Z3B0X3NlY3JldA"]);
  expect(bearerOf("gpt_~~~???")).toBe("gpuaas.bearer.Z3B0X35-fj8_Pw");
});

test("a lost connection resumes its session, with the present size", async () => {
  const { connection, asked, last, output, socket } = opened();
  connection.resize(80, 24);
  const one = await socket();
  one.accept({ type: "session", id: "s1", resumed: false, recorded: false });
  expect(last()).toEqual({ name: "connected", recorded: false });
  expect(one.sent).toEqual([JSON.stringify({ type: "resize", columns: 80, rows: 24 })]);
  one.onmessage?.({ data: new Uint8Array([104, 105]).buffer });
  expect(output).toEqual([104, 105]);
  one.cut(1006);
  expect(last().name).toBe("reconnecting");
  await vi.advanceTimersByTimeAsync(1_000);
  const two = await socket();
  expect(two).not.toBe(one);
  expect(asked).toEqual([undefined, "s1"]);
  two.accept({ type: "session", id: "s1", resumed: true, recorded: false });
  expect(two.sent).toEqual([JSON.stringify({ type: "resize", columns: 80, rows: 24 })]);
});

test("a session whose server has ended is replaced by a new one", async () => {
  const { asked, last, socket } = opened(granted, "old");
  (await socket()).cut(4404);
  expect(last().name).toBe("reconnecting");
  await vi.advanceTimersByTimeAsync(1_000);
  expect(asked).toEqual(["old", undefined]);
  (await socket()).cut(4404); // there is no allocation any more
  expect(last()).toEqual({ name: "ended", reason: "lost" });
});

test.each([
  [4401, { name: "ended", reason: "right_lost" }],
  [4408, { name: "ended", reason: "idle" }],
  [4409, { name: "replaced" }],
])("the close code %d ends the terminal", async (code, want) => {
  const { last, socket } = opened();
  const one = await socket();
  one.accept({ type: "session", id: "s1", resumed: false, recorded: false });
  one.cut(code);
  expect(last()).toEqual(want);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(Socket.all).toHaveLength(1);
});

test("the message of an exit is the reason, whatever the close code is", async () => {
  const { last, socket } = opened();
  const one = await socket();
  one.accept({ type: "session", id: "s1", resumed: false, recorded: false });
  one.accept({ type: "exit", status: 3, reason: "exited" });
  one.cut(4401);
  expect(last()).toEqual({ name: "ended", reason: "exited", status: 3 });
});

test("an error that another attempt does not change ends the terminal, and others are tried again with longer pauses", async () => {
  expect((await final({ error: "the allocation is released", final: true })).last()).toEqual({ name: "ended", reason: "the allocation is released" });
  const { asked, last } = await final({ error: "", final: false });
  expect(last().name).toBe("reconnecting");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked.length).toBeGreaterThan(4);
  expect(asked.length).toBeLessThan(14); // at 500 ms each it would be 120
});

async function final(access: Access) {
  const one = opened(access);
  await vi.advanceTimersByTimeAsync(0);
  return one;
}

test("nothing opens after close", async () => {
  const { connection, socket } = opened();
  const one = await socket();
  one.accept({ type: "session", id: "s1", resumed: false, recorded: false });
  connection.close();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(Socket.all).toHaveLength(1);
});

test("messages of the server are read strictly", () => {
  for (const bad of ["", "null", "[]", '"exit"', '{"type":"session"}', '{"type":"exit"}', '{"type":"later","id":"x"}', '{"type":"session","id":1}']) expect(messageOf(bad)).toBeUndefined();
  expect(messageOf('{"type":"exit","reason":"idle","more":1}')).toEqual({ type: "exit", reason: "idle" });
});

test("lines of a paste", () => {
  expect(linesOf("ls")).toBe(1);
  expect(linesOf("ls\n")).toBe(1);
  expect(linesOf("ls\r\nrm\rcd")).toBe(3);
});

test("a Tab shortly after Escape leaves the terminal, and every other key is one of the shell", () => {
  const isOfShell = newLeaving();
  const press = (key: string, timeStamp: number, type = "keydown") => isOfShell({ type, key, timeStamp });
  expect(press("Tab", 0)).toBe(true);
  expect(press("Escape", 1_000)).toBe(true);
  expect(press("Escape", 1_050, "keyup")).toBe(true);
  expect(press("Shift", 1_100)).toBe(true);
  expect(press("Tab", 1_200)).toBe(false);
  expect(press("Tab", 1_300)).toBe(false);
  expect(press("Tab", 3_100)).toBe(true);
  press("Escape", 4_000);
  press("x", 4_100);
  expect(press("Tab", 4_200)).toBe(true);
});
