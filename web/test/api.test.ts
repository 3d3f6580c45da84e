import { expect, test } from "vitest";
import { api, tagged, unwrap } from "../src/api/client";
import { serverNow } from "../src/api/clock";
import { ApiError } from "../src/api/error";
import { selectProject } from "../src/api/project";
import { shouldRetry, retryDelay } from "../src/query/client";
import { problem, serve } from "./server";

const me = () => unwrap(api.GET("/api/v1/users/me"));
const refreshPath = "POST /api/v1/auth/token/refresh";

test("one refresh serves all calls that wait", async () => {
  let valid = false;
  const calls = serve({
    "GET /api/v1/users/me": () => (valid ? { body: { actor_type: "user" } } : problem(401, "token_expired")),
    [refreshPath]: async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      valid = true;
      return { body: {} };
    },
  });
  const all = await Promise.all([me(), me(), me()]);
  expect(all.every(({ actor_type }) => actor_type === "user")).toBe(true);
  expect(calls.filter(({ url }) => url.endsWith("/refresh"))).toHaveLength(1);
});

test("a 401 that comes after the refresh starts no second one", async () => {
  let valid = false;
  let respond = () => {};
  const late = new Promise<void>((resolve) => (respond = resolve));
  const calls = serve({
    "GET /api/v1/skus": async () => {
      if (valid) return { body: { items: [] } };
      await late;
      return problem(401, "token_expired");
    },
    "GET /api/v1/users/me": () => (valid ? { body: { actor_type: "user" } } : problem(401, "token_expired")),
    [refreshPath]: () => ((valid = true), { body: {} }),
  });
  const slow = unwrap(api.GET("/api/v1/skus"));
  // The slow call was sent without a valid token, and its 401 arrives last.
  await new Promise((resolve) => setTimeout(resolve, 0));
  await me();
  respond();
  expect((await slow).items).toEqual([]);
  expect(calls.filter(({ url }) => url.endsWith("/refresh"))).toHaveLength(1);
});

test("a session that cannot be refreshed gives the error of the first call", async () => {
  serve({ "GET /api/v1/users/me": () => problem(401, "token_expired"), [refreshPath]: () => problem(401, "token_missing") });
  await expect(me()).rejects.toMatchObject({ status: 401, code: "token_expired" });
});

test("each call has a correlation id and the selected project", async () => {
  const calls = serve({ "GET /api/v1/users/me": () => ({ body: { actor_type: "user" } }) });
  selectProject("p1");
  await me();
  selectProject("");
  await me();
  expect(calls.map(({ headers }) => headers.get("X-Project-ID"))).toEqual(["p1", null]);
  expect(new Set(calls.map(({ headers }) => headers.get("X-Correlation-ID"))).size).toBe(2);
});

test("an error has code, next step, field and the time to wait", async () => {
  serve({ "GET /api/v1/users/me": () => problem(429, "rate_limited", { suggestion: "wait", field: "f" }, { "Retry-After": "7" }) });
  await expect(me()).rejects.toMatchObject({ code: "rate_limited", correlationId: "c-1", suggestion: "wait", field: "f", retryAfter: 7 });
});

test("a page of a proxy and a lost connection are errors with a code", async () => {
  serve({ "GET /api/v1/users/me": () => ({ status: 502, body: "<html>" }) });
  await expect(me()).rejects.toMatchObject({ status: 502, code: "unreadable" });
  serve({});
  await expect(me()).rejects.toMatchObject({ status: 0, code: "unreachable" });
});

test("a resource keeps its tag", async () => {
  serve({ "GET /api/v1/allocations/a": () => ({ body: { id: "a" }, headers: { ETag: '"3"' } }) });
  const { etag } = await tagged(api.GET("/api/v1/allocations/{id}", { params: { path: { id: "a" } } }));
  expect(etag).toBe('"3"');
});

test("a wrong clock of the computer is corrected, a slow response is not", async () => {
  const answer = (offset: number) => ({ body: { actor_type: "user" }, headers: { Date: new Date(Date.now() + offset).toUTCString() } });
  serve({ "GET /api/v1/users/me": () => answer(3_600_000) });
  await me();
  expect(Math.round((serverNow() - Date.now()) / 60_000)).toBe(60);
  serve({ "GET /api/v1/users/me": () => answer(-5_000) });
  await me();
  expect(Math.abs(serverNow() - Date.now())).toBeLessThan(50);
});

test("only an overloaded server is asked again, after the time that it names", () => {
  const error = (status: number, retryAfter = 0) => new ApiError(status, "x", "", "", "", "", retryAfter);
  expect([429, 503].map((status) => shouldRetry(0, error(status)))).toEqual([true, true]);
  expect([0, 400, 401, 403, 404, 409, 412, 500].map((status) => shouldRetry(0, error(status)))).toEqual(Array(8).fill(false));
  expect(shouldRetry(3, error(429))).toBe(false);
  expect(retryDelay(1, error(429, 9))).toBe(9_000);
});
