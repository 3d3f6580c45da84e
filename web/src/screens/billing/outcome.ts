const outcomes = { initiated: "pending", checkout_completed: "paid", credited: "credited", failed_reconcile: "mismatch", expired: "expired" } as const;

export type Outcome = (typeof outcomes)[keyof typeof outcomes] | "cancelled";

// outcomeOf is what a user reads about a payment, or undefined for a status of a newer server. A user who has left the
// payment page can still have paid, so only an open payment counts as cancelled.
export const outcomeOf = (status: string, cancelled: boolean): Outcome | undefined =>
  status === "initiated" && cancelled ? "cancelled" : Object.hasOwn(outcomes, status) ? outcomes[status as keyof typeof outcomes] : undefined;
