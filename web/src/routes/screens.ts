import type { Action } from "../session/may";

// screens are the entries of the navigation: path, text, keys, and the action without which a screen shows nothing. Those
// of the platform are a group of their own.
export const screens = [
  { path: "/", name: "home", keys: "g h", action: undefined, platform: false },
  { path: "/allocations", name: "allocations", keys: "g a", action: "listAllocations", platform: false },
  { path: "/launch", name: "launch", keys: "g l", action: "createAllocation", platform: false },
  { path: "/files", name: "files", keys: "g g", action: "listStorage", platform: false },
  { path: "/billing", name: "billing", keys: "g b", action: "getBalance", platform: false },
  { path: "/projects", name: "projects", keys: "g p", action: undefined, platform: false },
  { path: "/members", name: "members", keys: "g m", action: "listTenantMembers", platform: false },
  { path: "/keys", name: "keys", keys: "g k", action: undefined, platform: false },
  { path: "/notifications", name: "notifications", keys: "g w", action: undefined, platform: false },
  { path: "/webhooks", name: "webhooks", keys: "g j", action: "listWebhooks", platform: false },
  { path: "/evidence", name: "evidence", keys: "g 1", action: "listEvidence", platform: false },
  { path: "/status", name: "status", keys: "g t", action: undefined, platform: false },
  { path: "/profile", name: "profile", keys: "g s", action: undefined, platform: false },
  { path: "/ops", name: "ops", keys: "g o", action: "getOpsOverview", platform: true },
  { path: "/fleet", name: "fleet", keys: "g f", action: "listAdminNodes", platform: true },
  { path: "/admin/allocations", name: "adminAllocations", keys: "g q", action: "listAdminAllocations", platform: true },
  { path: "/changes", name: "changes", keys: "g c", action: "listPlans", platform: true },
  { path: "/drift", name: "drift", keys: "g d", action: "listDrift", platform: true },
  { path: "/admin/policies", name: "policies", keys: "g y", action: "listPolicies", platform: true },
  { path: "/admin/users", name: "users", keys: "g u", action: "listUsers", platform: true },
  { path: "/admin/tenants", name: "tenants", keys: "g e", action: "listTenants", platform: true },
  { path: "/admin/sessions", name: "sessions", keys: "g i", action: "listAllSessions", platform: true },
  { path: "/admin/terminal-sessions", name: "terminals", keys: "g z", action: "listAdminTerminalSessions", platform: true },
  { path: "/admin/payments", name: "payments", keys: "g r", action: "listAdminPaymentSessions", platform: true },
  { path: "/admin/audit", name: "audit", keys: "g x", action: "listAdminAuditLogs", platform: true },
  { path: "/admin/events", name: "events", keys: "g v", action: "listDeadLetters", platform: true },
  { path: "/runbooks", name: "runbooks", keys: "g n", action: "getOpsOverview", platform: true },
] as const satisfies { path: string; name: string; keys: string; action: Action | undefined; platform: boolean }[];
