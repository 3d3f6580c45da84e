// unreported is what no event reports, with the reason. A visible screen reads it in this interval in milliseconds, also
// while the stream works. No other screen polls then, and a test compares.
export const unreported = {
  telemetry: { every: 15_000, why: "The readings of a GPU are no events." },
  queue: { every: 15_000, why: "The reason why an allocation waits depends on allocations of other tenants." },
  balance: { every: 60_000, why: "A charge of each tick changes the balance without an event." },
  checkout: { every: 2_000, why: "The payment and the end of a checkout are no events, only the credit is." },
  health: { every: 15_000, why: "The checks of the installation run at each reading." },
  tenants: { every: 15_000, why: "The stream has the events of the own tenant." },
  objects: { every: 15_000, why: "The status of a desired object is computed at each reading." },
  faults: { every: 60_000, why: "The decision about a fault report is no event." },
  nodes: { every: 15_000, why: "Reports, tasks and the reachability of nodes are no events." },
  webhooks: { every: 15_000, why: "The deliveries of a webhook are no events." },
  evidence: { every: 15_000, why: "A bundle that is signed is no event." },
  terminals: { every: 15_000, why: "Terminals that open and end are no events." },
  files: { every: 30_000, why: "A file is no event: a data set would be millions of them." },
  letters: { every: 15_000, why: "Failures and progress of consumers are no events of the stream." },
} as const satisfies Record<string, { every: number; why: string }>;
