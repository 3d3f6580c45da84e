import { vi } from "vitest";

type Opened = { url: URL; headers: Headers; send: (id: string, subject: string, payload?: object) => void; item: (kind: string, data: object) => void; cut: () => void; beat: () => void };

const bytes = (text: string) => new TextEncoder().encode(text);

// serveStream replaces the stream of events: each connection gets the next of the statuses, the last one repeatedly. After
// the status -1 no byte of the body arrives. All
// other calls get the reply of other. It returns the connections that were opened.
export function serveStream(other: (request: Request) => Promise<Response> | Response, ...statuses: number[]) {
  const opened: Opened[] = [];
  const attempts: URL[] = [];
  vi.stubGlobal("fetch", async (input: Request | string, init?: RequestInit) => {
    const request = input instanceof Request ? input : new Request(new URL(input, location.origin), init);
    const url = new URL(request.url);
    if (url.pathname !== "/api/v1/events") return other(request);
    attempts.push(url);
    const status = statuses.length > 1 ? statuses.shift()! : (statuses[0] ?? 200);
    if (status === 0) throw new Error("connection lost");
    if (status === -1) return new Response(silent(request), { headers: { "Content-Type": "text/event-stream" } });
    if (status !== 200) return new Response("{}", { status });
    return new Response(bodyOf(request, url, opened), { headers: { "Content-Type": "text/event-stream" } });
  });
  return { opened, attempts };
}

// silent is a body that a proxy holds back.
const silent = (request: Request) =>
  new ReadableStream<Uint8Array>({ start: (controller) => request.signal.addEventListener("abort", () => controller.error(new Error("aborted"))) });

function bodyOf(request: Request, url: URL, opened: Opened[]) {
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const cut = () => controller.close();
      request.signal.addEventListener("abort", () => controller.error(new Error("aborted")));
      controller.enqueue(bytes("retry: 2000\n\n"));
      const send = (id: string, subject: string, payload: object = {}) => {
        const text = `id: ${id}\nevent: ${subject}\ndata: ${JSON.stringify({ event_id: id, event_type: subject, payload })}\n\n`;
        // An event can be cut anywhere.
        controller.enqueue(bytes(text.slice(0, 30)));
        controller.enqueue(bytes(text.slice(30)));
      };
      const item = (kind: string, data: object) => controller.enqueue(bytes(`event: ${kind}\ndata: ${JSON.stringify(data)}\n\n`));
      opened.push({ url, headers: request.headers, send, item, cut, beat: () => controller.enqueue(bytes(":\n\n")) });
    },
  });
}
