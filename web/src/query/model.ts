import { replaceEqualDeep } from "@tanstack/react-query";
import type { Schemas } from "../api/client";

// Part is what a section of a screen shows: a query, or a section of a read model.
export type Part<T> = { data: T | undefined; error: Error | null; failureReason: Error | null; refetch: () => unknown };

export type SectionOf<T> = { status: string; data?: T; message?: Schemas["SectionMessage"]; runbook_id?: Schemas["SectionRunbook"] };

// SectionError is why a section of a read model has no data, while others have.
export class SectionError extends Error {
  constructor(
    readonly status: string,
    message: string,
    readonly runbook = "",
  ) {
    super(message);
  }
}

// partOf makes a part of a section. A try again reads the whole read model.
export const partOf = <T>({ data, status, message = "", runbook_id }: SectionOf<T>, refetch: () => unknown): Part<T> => ({
  data,
  error: data === undefined || status === "degraded" ? new SectionError(status, message, runbook_id) : null,
  failureReason: null,
  refetch,
});

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null;
const isSection = (value: unknown): value is SectionOf<unknown> => isObject(value) && typeof value.operation === "string" && typeof value.status === "string";
const kept = (before: unknown, now: unknown) =>
  isSection(now) && now.status === "degraded" && now.data === undefined && isSection(before) && before.data !== undefined ? { ...now, data: before.data } : now;

// keepSections keeps the last data of a section that is degraded now. A form in the section would lose its input otherwise.
// A restricted section keeps no data.
export function keepSections(before: unknown, now: unknown): unknown {
  if (!isObject(before) || !isObject(now) || !Object.values(now).some(isSection)) return replaceEqualDeep(before, now);
  return replaceEqualDeep(before, Object.fromEntries(Object.entries(now).map(([name, value]) => [name, kept(before[name], value)])));
}
