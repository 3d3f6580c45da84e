// StreamEvent is an event of the server: its id, its subject and its payload.
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

function eventOf(block: string): StreamEvent | undefined {
  const fields = new Map(block.split("\n").map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]));
  const id = fields.get("id");
  return id === undefined ? undefined : { id, subject: fields.get("event") ?? "", payload: payloadOf(fields.get("data") ?? "") };
}

// An event that cannot be read counts as one without a payload, so that its id is the next position.
function payloadOf(data: string): Record<string, unknown> {
  try {
    const { payload } = JSON.parse(data) as { payload?: unknown };
    return typeof payload === "object" && payload !== null ? (payload as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
