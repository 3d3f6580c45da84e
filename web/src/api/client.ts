import createClient, { type Middleware } from "openapi-fetch";
import { ApiError, errorOf, unreachable } from "./error";
import { randomId, send } from "./fetch";
import { selectedProject } from "./project";
import type { components, paths } from "./schema.gen";

export type Schemas = components["schemas"];

const headers: Middleware = {
  onRequest({ request }) {
    const project = selectedProject();
    if (project !== "" && !request.headers.has("X-Project-ID")) request.headers.set("X-Project-ID", project);
    request.headers.set("X-Correlation-ID", randomId());
    return request;
  },
};

export const api = createClient<paths>({ baseUrl: location.origin, fetch: send });
api.use(headers);

type Result<T> = { data?: T; error?: unknown; response: Response };

// Tagged is a resource with the tag that a change of it sends as If-Match.
export type Tagged<T> = { value: T; etag: string };

// unwrap returns the data of a call, or throws an ApiError.
export const unwrap = async <T>(call: Promise<Result<T>>): Promise<T> => (await settle(call)).data as T;

// tagged is unwrap with the ETag.
export async function tagged<T>(call: Promise<Result<T>>): Promise<Tagged<T>> {
  const { data, response } = await settle(call);
  return { value: data as T, etag: response.headers.get("ETag") ?? "" };
}

async function settle<T>(call: Promise<Result<T>>): Promise<Result<T>> {
  let result: Result<T>;
  try {
    result = await call;
  } catch (cause) {
    throw cause instanceof ApiError ? cause : unreachable();
  }
  if (!result.response.ok) throw errorOf(result.response, result.error);
  return result;
}
