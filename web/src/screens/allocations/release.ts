import { api, unwrap } from "../../api/client";
import type { ApiError } from "../../api/error";
import { unknownOutcome } from "../../query/action";

export type Chosen = { id: string; name: string };
export type Outcome = { released: Chosen[]; failed: (Chosen & { message: string; unknown: boolean })[]; left: Chosen[] };

// Errors after which the next release would fail, too: no connection, no session, too many requests, no server.
const ends = new Set([0, 401, 429, 503]);

// releaseAll releases one allocation after the other, each with an idempotency key of its own. open has the keys of those
// whose outcome is unknown: a repetition sends the same key.
export async function releaseAll(chosen: Chosen[], key: string, open = new Map<string, string>()): Promise<Outcome> {
  const outcome: Outcome = { released: [], failed: [], left: [] };
  for (const [place, { id, name }] of chosen.entries()) {
    const own = open.get(id) ?? `${key}.${place}`;
    open.set(id, own);
    try {
      await unwrap(api.POST("/api/v1/allocations/{id}/release", { params: { path: { id }, header: { "X-Idempotency-Key": own } } }));
      open.delete(id);
      outcome.released.push({ id, name });
    } catch (error) {
      const { status, message, code } = error as ApiError;
      if (!unknownOutcome(error)) open.delete(id);
      // After 503 the server has done nothing. After a lost response or another error of the server the outcome is unknown.
      outcome.failed.push({ id, name, message: message || code, unknown: !(status > 0 && status < 500) && status !== 503 });
      if (!ends.has(status)) continue;
      outcome.left = chosen.slice(place + 1);
      return outcome;
    }
  }
  return outcome;
}
