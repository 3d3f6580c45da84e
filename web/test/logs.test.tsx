import { expect, test } from "vitest";
import { Logs } from "../src/screens/logs/logs";
import type { Open } from "../src/screens/logs/read";
import { button, click, pause, render, until } from "./render";

const text = () => document.querySelector("pre")?.textContent ?? "";
const line = (n: number, content: string) => `id: ${n}.1\nevent: line\ndata: ${JSON.stringify({ at: "2026-01-05T09:00:04Z", text: content })}\n\n`;
const end = (reason: string) => `event: end\ndata: ${JSON.stringify({ reason, message: reason })}\n\n`;

// source serves one body for each connection, which a test can write to.
function source() {
  const opened: { source: string; last: string | undefined; signal: AbortSignal; write: (text: string) => Promise<void>; close: () => Promise<void> }[] = [];
  const open: Open = (name, last, signal) => {
    const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
    const writer = writable.getWriter();
    opened.push({ source: name, last, signal, write: (each) => writer.write(new TextEncoder().encode(each)), close: () => writer.close() });
    return Promise.resolve(readable);
  };
  return { opened, open };
}

test("a log is text, counts dropped lines, pauses, and resumes after its last line", async () => {
  const { opened, open } = source();
  await render(<Logs sources={["agent", "kernel"]} open={open} />);
  expect(opened).toHaveLength(0);
  await click(button("Follow the log"));
  const [first] = opened;
  const hostile = "\u001b]0;evil\u0007\u001b[2J<img src=x onerror=alert(1)>";
  void first?.write(`retry: 2000\n\n: still here\n\n${line(1, hostile)}event: dropped\ndata: {"lines":3}\n\n`);
  await until(() => text().includes("3 lines were dropped"));
  expect(text()).toContain(hostile);
  expect(document.querySelector("pre img")).toBeNull();
  await click(button("Pause"));
  void first?.write(line(2, "while paused"));
  await pause(250);
  expect(text()).not.toContain("while paused");
  await click(button("Continue"));
  await until(() => text().includes("while paused"));
  void first?.close();
  await pause(2_200);
  expect(opened[1]?.last).toBe("2.1");
  void opened[1]?.write(line(3, "after the loss") + end("allocation_ended"));
  await until(() => text().includes("the allocation has ended"));
  expect(text()).toContain("after the loss");
  expect(button("Follow the log")).toBeDefined();
  await pause(2_200);
  expect(opened).toHaveLength(2);
}, 15_000);

test("a log that is stopped closes its connection", async () => {
  const { opened, open } = source();
  await render(<Logs sources={["agent"]} open={open} />);
  await click(button("Follow the log"));
  await click(button("Stop"));
  expect(opened[0]?.signal.aborted).toBe(true);
});
