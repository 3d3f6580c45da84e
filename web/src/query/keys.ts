import { unlessLive } from "../stream/state";

// keys name each query once, so that an action or an event can invalidate exactly what it changes.
export type AllocationFilter = { status?: string; sku?: string; name?: string; q?: string; sort?: string };

export type DriftFilter = { status?: string; kind?: string };
export type ChangeFilter = { status?: string; origin?: string; source?: string };
export type FleetFilter = { region?: string; sku?: string; lifecycle?: string; health?: string; reachability?: string; q?: string; sort?: string };
export type AdminAllocationFilter = { status?: string; sku?: string; node?: string; tenant?: string; older?: string; newer?: string };
export type TerminalFilter = { status?: string; node?: string; tenant?: string };
export type PolicyFilter = { prefix?: string };
export type UserFilter = { q?: string; role?: string; tenant?: string };
export type PaymentFilter = { status?: string; tenant?: string };
export type AuditFilter = { actor?: string; action?: string; target?: string; tenant?: string; from?: string; to?: string };
export type EvidenceFilter = { kind?: string; status?: string; about?: string };
export type LetterFilter = { consumer?: string; stream?: string; subject?: string; state?: string };

export const keys = {
  me: ["me"],
  status: ["status"],
  projects: ["projects"],
  projectList: ["projects", "list"],
  projectSearch: (q: string | undefined) => ["projects", "list", q],
  project: (id: string) => ["projects", id],
  projectLimits: (id: string) => ["projects", id, "limits"],
  projectMembers: (id: string) => ["projects", id, "members"],
  serviceAccounts: (project: string) => ["projects", project, "service-accounts"],
  serviceAccount: (id: string) => ["service-accounts", id],
  credentials: (id: string) => ["service-accounts", id, "credentials"],
  members: ["members"],
  tenantMembers: ["members", "list"],
  memberChoice: ["members", "choice"],
  tenantInvitations: ["members", "invitations"],
  access: ["access"],
  apiKeys: ["api-keys"],
  sessions: ["sessions"],
  sessionList: ["sessions", "list"],
  invitations: ["invitations"],
  skus: ["skus"],
  launch: ["skus", "launch"],
  sshKeys: ["ssh-keys"],
  overview: ["overview"],
  search: (text: string) => ["search", text],
  billing: ["billing"],
  billingOverview: ["billing", "overview"],
  usage: (by: string) => ["billing", "usage", by],
  intervals: (allocation?: string) => ["billing", "intervals", allocation],
  ledger: ["billing", "ledger"],
  statements: ["billing", "statements"],
  topups: ["billing", "topups"],
  refunds: ["billing", "refunds"],
  payment: (id: string) => ["billing", "payments", id],
  allocations: ["allocations"],
  allocationLists: ["allocations", "list"],
  allocationList: (filter: AllocationFilter) => ["allocations", "list", filter],
  terminalSessions: (id: string) => ["allocations", id, "terminal-sessions"],
  recordings: (id: string) => ["allocations", id, "recordings"],
  recording: (id: string) => ["recordings", id],
  allTerminals: ["terminal-sessions"],
  allTerminalSessions: (filter: TerminalFilter) => ["terminal-sessions", filter],
  terminal: (id: string) => ["allocations", id, "terminal"],
  allocation: (id: string) => ["allocations", id],
  telemetry: (id: string, hours: number, ended?: string) => ["allocations", id, "telemetry", hours, ended],
  allocationFaults: (id: string) => ["allocations", id, "faults"],
  proof: (id: string) => ["allocations", id, "proof"],
  files: ["files"],
  fileList: (project: string, path: string) => ["files", project, "list", path],
  fileUsage: (project: string) => ["files", project, "usage"],
  storageKeys: (project: string) => ["files", project, "keys"],
  storageClasses: ["storage-classes"],
  deletedFiles: (project: string) => ["files", project, "deleted"],
  drift: ["drift"],
  driftList: (filter: DriftFilter) => ["drift", filter],
  changes: ["changes"],
  changeLists: ["changes", "list"],
  changeList: (filter: ChangeFilter) => ["changes", "list", filter],
  change: (id: string) => ["changes", id],
  fleet: ["fleet"],
  fleetLists: ["fleet", "list"],
  fleetList: (filter: FleetFilter) => ["fleet", "list", filter],
  nodes: ["fleet", "node"],
  node: (name: string) => ["fleet", "node", name],
  ops: ["ops"],
  previews: ["preview"],
  users: ["users"],
  userLists: ["users", "list"],
  userList: (filter: UserFilter) => ["users", "list", filter],
  user: (id: string) => ["users", "one", id],
  allSessions: ["all-sessions"],
  allSessionList: (user: string | undefined) => ["all-sessions", user ?? ""],
  tenants: ["tenants"],
  tenantList: ["tenants", "list"],
  tenant: (id: string) => ["tenants", "one", id],
  tenantBalance: (id: string) => ["tenants", "one", id, "balance"],
  tenantUsage: (id: string, by: string) => ["tenants", "one", id, "usage", by],
  tenantLedger: (id: string) => ["tenants", "one", id, "ledger"],
  payments: ["payments"],
  paymentList: (filter: PaymentFilter) => ["payments", "list", filter],
  adminRefunds: (tenant: string | undefined) => ["payments", "refunds", tenant ?? ""],
  disputes: (tenant: string | undefined) => ["payments", "disputes", tenant ?? ""],
  auditList: (filter: AuditFilter) => ["audit", filter],
  desired: (kind: string, name: string, scope: string | undefined) => ["desired", kind, name, scope ?? ""],
  notifications: ["notifications"],
  notificationList: (unread: boolean) => ["notifications", "list", unread],
  preferences: ["preferences"],
  ownPreferences: ["preferences", "own"],
  tenantPreferences: ["preferences", "tenant"],
  webhooks: ["webhooks"],
  webhookList: ["webhooks", "list"],
  webhook: (id: string) => ["webhooks", "one", id],
  webhookDeliveries: (id: string) => ["webhooks", "deliveries", id],
  evidenceList: (filter: EvidenceFilter) => ["evidence", "list", filter],
  evidence: (id: string) => ["evidence", "one", id],
  deadLetters: ["dead-letters"],
  deadLetterList: (filter: LetterFilter) => ["dead-letters", "list", filter],
  deadLetter: (id: string) => ["dead-letters", "one", id],
  consumers: ["consumers"],
  runbook: (name: string) => ["runbook", name],
  gitSources: ["git-sources"],
  policies: ["policies"],
  policyList: (filter: PolicyFilter) => ["policies", "list", filter],
  policy: (key: string) => ["policies", "key", key],
  adminAllocations: ["admin-allocations"],
  adminAllocationList: (filter: AdminAllocationFilter) => ["admin-allocations", "list", filter],
  adminAllocation: (id: string) => ["admin-allocations", id],
  adminAllocationTrace: (id: string) => ["admin-allocations", id, "trace"],
  preview: (request: object) => ["preview", request],
} as const;

// Stale times in milliseconds: how long a screen shows what it has without asking again.
export const stale = { live: 2_000, list: 10_000, money: 15_000, catalogue: 60_000 };

// Interval in milliseconds in which a visible screen asks again.
export type Interval = number | (() => number | false);

// refetch asks again while no stream of events works. What no event reports is in ../stream/unreported.ts.
export const refetch = { changing: unlessLive(2_000), live: unlessLive(15_000) };
