import type { components } from "./schema.gen";

type Problem = components["schemas"]["Problem"];

// ApiError is a failed call: an error of the catalogue, or one without a response.
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly correlationId = "",
    readonly suggestion = "",
    readonly field = "",
    readonly retryAfter = 0,
    // moved is what has changed since a stale plan was computed.
    readonly moved: string[] = [],
  ) {
    super(message);
  }
}

// unreachable is the error of a call without a response. Its text is in the catalogue of texts.
export const unreachable = () => new ApiError(0, "unreachable", "");

export function errorOf(response: Response, body: unknown): ApiError {
  const problem = (typeof body === "object" && body !== null ? body : {}) as Partial<Problem>;
  const detail = (name: string) => (typeof problem.details?.[name] === "string" ? (problem.details[name] as string) : "");
  return new ApiError(
    response.status,
    problem.code ?? "unreadable",
    problem.message ?? "",
    problem.correlation_id ?? response.headers.get("X-Correlation-ID") ?? "",
    detail("suggestion"),
    detail("field"),
    Number(response.headers.get("Retry-After")) || 0,
    movedIn(problem.details?.["moved"]),
  );
}

const movedIn = (value: unknown) => (Array.isArray(value) ? value.filter((each) => typeof each === "string") : []);

// errorPage is the page of a code in the catalogue of errors.
export const errorPage = (code: string) => `/docs/reference/errors#${encodeURIComponent(code)}`;
