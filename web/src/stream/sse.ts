// StreamEvent is an event of the server: its id, its subject and its payload. An item without an id is no event: its
// subject is notification or unread, and it does not move the position.
export type StreamEvent = { id: string; subject: string; payload: Record<string, unknown> };

// readEvents reads server-sent events until the server closes the connection. heard is called for each part of it, also
// for a heartbeat.
export async function readEvents(body: ReadableStream<Uint8Array>, heard: () => void, each: (event: StreamEvent) => void) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const blocks = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = blocks.pop() ?? "";
    blocks.map(eventOf).forEach((event) => event && each(event));
  }
}

const kinds = new Set(["notification", "unread"]);

function eventOf(block: string): StreamEvent | undefined {
  const fields = new Map(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]));
  const id = fields.get("id");
  const subject = fields.get("event") ?? "";
  const data = objectOf(fields.get("data") ?? "");
  if (id === undefined) return kinds.has(subject) ? { id: "", subject, payload: data } : undefined;
  return { id, subject, payload: payloadOf(data) };
}

// messageOf reads a message of a websocket. Another server may send what is no event.
export function messageOf(text: unknown): StreamEvent | undefined {
  const data = objectOf(typeof text === "string" ? text : "");
  const { event_id: id = "", event_type: subject } = data;
  if (typeof id !== "string" || typeof subject !== "string" || (id === "" && !kinds.has(subject))) return undefined;
  return { id, subject, payload: payloadOf(data) };
}

// An event that cannot be read counts as one without a payload, so that its id is the next position.
const payloadOf = ({ payload }: Record<string, unknown>) => (typeof payload === "object" && payload !== null ? (payload as Record<string, unknown>) : {});

function objectOf(text: string): Record<string, unknown> {
  try {
    const data: unknown = JSON.parse(text);
    return typeof data === "object" && data !== null ? (data as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
