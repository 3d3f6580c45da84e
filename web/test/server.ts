import { vi } from "vitest";

export type Reply = { status?: number; body?: unknown; headers?: Record<string, string> };
export type Handler = (request: Request) => Reply | Promise<Reply>;

const stream = "/api/v1/events";

// serve replaces the network: a route has a handler, or that of "*". Every other call is lost. It returns the calls.
// The stream of events, which every screen opens, stays without a response in a test that has no handler for it.
export function serve(routes: Record<string, Handler>): Request[] {
  const calls: Request[] = [];
  vi.stubGlobal("fetch", async (input: Request | string, init?: RequestInit) => {
    const request = input instanceof Request ? input : new Request(new URL(input, location.origin), init);
    const route = `${request.method} ${new URL(request.url).pathname}`;
    if (route === `GET ${stream}` && routes[route] === undefined) return new Promise<never>(() => {});
    calls.push(request.clone());
    const handler = routes[route] ?? routes["*"];
    if (handler === undefined) throw new Error(`no route for ${request.method} ${request.url}`);
    const { status = 200, body, headers = {} } = await handler(request);
    return new Response(body === undefined ? null : JSON.stringify(body), { status, headers: { "Content-Type": "application/json", ...headers } });
  });
  return calls;
}

export const problem = (status: number, code: string, details: object = {}, headers: Record<string, string> = {}): Reply => ({
  status,
  headers,
  body: { code, message: `message of ${code}`, correlation_id: "c-1", details, type: "", title: "", status, instance: "" },
});
