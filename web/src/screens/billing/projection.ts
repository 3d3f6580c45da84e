import type { Schemas } from "../../api/client";

export type Point = { at: number; minor: number };

const steps = 12;

// projection is the balance from now until it is used up, at the present burn rate.
export function projection({ amount_minor, burn_per_hour_minor, runway_seconds }: Schemas["Balance"], now: number): Point[] {
  if (runway_seconds === undefined || runway_seconds <= 0 || burn_per_hour_minor <= 0) return [];
  return Array.from({ length: steps + 1 }, (_, step) => ({
    at: now + (runway_seconds * 1_000 * step) / steps,
    minor: Math.round(amount_minor * (1 - step / steps)),
  }));
}
