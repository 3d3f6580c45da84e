import { QueryClient } from "@tanstack/react-query";
import { ApiError } from "../api/error";
import { isLive } from "../stream/state";
import { stale } from "./keys";
import { keepSections } from "./model";

const retryable = new Set([429, 503]);
const attempts = 3;

// shouldRetry repeats only what the server has not done: it was overloaded, or limits the rate.
export const shouldRetry = (failures: number, error: unknown) =>
  failures < attempts && error instanceof ApiError && retryable.has(error.status);

export const retryDelay = (failures: number, error: unknown) =>
  (error instanceof ApiError && error.retryAfter > 0 ? error.retryAfter : 2 ** failures) * 1_000;

export const newQueryClient = () =>
  new QueryClient({
    defaultOptions: {
      queries: { retry: shouldRetry, retryDelay, staleTime: stale.list, structuralSharing: keepSections, refetchOnWindowFocus: () => !isLive() },
      mutations: { retry: false },
    },
  });
