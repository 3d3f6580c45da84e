import type { Schemas } from "../../api/client";

type Allocation = Schemas["Allocation"];

// hourly is the price of all GPUs per hour.
export const hourly = ({ price, gpus }: Pick<Allocation, "price" | "gpus">): Schemas["Money"] => ({ ...price, amount_minor: price.amount_minor * gpus });

// costAt adds the seconds since the response to the cost of the response, rounded down as the ledger does.
export function costAt(allocation: Allocation, receivedAt: number, now: number): Schemas["Money"] {
  if (allocation.status !== "active") return allocation.cost;
  const seconds = Math.max(0, (now - receivedAt) / 1_000);
  return { ...allocation.cost, amount_minor: allocation.cost.amount_minor + Math.floor((hourly(allocation).amount_minor * seconds) / 3_600) };
}
