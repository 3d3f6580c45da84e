import { ApiError } from "../../api/error";

// Item is what the server sends about a log: a line with its id, a number of lines that were dropped, or the end.
export type Item = { kind: "line"; id: string; at: string; text: string } | { kind: "dropped"; lines: number } | { kind: "end"; reason: string; message: string };

// Open opens a log after the line with an id, or from its last lines without one.
export type Open = (source: string, last: string | undefined, signal: AbortSignal) => Promise<ReadableStream<Uint8Array>>;

// items reads the events of one response until it ends, or until each returns true.
export async function items(body: ReadableStream<Uint8Array>, each: (item: Item) => boolean) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = blocks.pop() ?? "";
    for (const block of blocks) {
      const item = itemOf(block);
      if (item !== undefined && each(item)) return void reader.cancel();
    }
  }
}

function itemOf(block: string): Item | undefined {
  const field = (name: string) => block.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2) ?? "";
  try {
    const { at, text, lines, reason, message } = JSON.parse(field("data")) as Record<string, unknown>;
    if (field("event") === "line") return { kind: "line", id: field("id"), at: String(at), text: String(text) };
    if (field("event") === "dropped") return { kind: "dropped", lines: Number(lines) };
    if (field("event") === "end") return { kind: "end", reason: String(reason), message: String(message) };
  } catch {
    // A heartbeat, or what another server sends.
  }
  return undefined;
}

// The pause before a lost connection is opened again.
const again = 2_000;

// follow reads a log and opens a lost connection again after the last line, until the log ends or the signal stops it. It throws
// the error of a request that the server rejects.
export async function follow(open: Open, source: string, signal: AbortSignal, each: (item: Item) => void) {
  let last: string | undefined;
  for (let ended = false; !ended && !signal.aborted; ) {
    try {
      await items(await open(source, last, signal), (item) => {
        if (item.kind === "line") last = item.id;
        ended = ended || (item.kind === "end" && item.reason !== "lost");
        each(item);
        return item.kind === "end";
      });
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && error.status !== 0 && error.status !== 503) throw error;
    }
    if (!ended) await new Promise((resolve) => setTimeout(resolve, again));
  }
}
