import type { Schemas } from "../../api/client";

const gib = 1n << 30n;

// forecast is the charge of 720 hours in minor units if the stored bytes stay as they are. The server charges the same
// floor(price × byte-seconds ÷ (GiB × 2,592,000)). The product can exceed 2⁵³.
export function forecast(bytes: number, { price, free_gib }: Pick<Schemas["StorageClass"], "price" | "free_gib">): number {
  const charged = BigInt(bytes) - BigInt(free_gib) * gib;
  return charged <= 0n ? 0 : Number((BigInt(price.amount_minor) * charged) / gib);
}
