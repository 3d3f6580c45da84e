import { createRoute, lazyRouteComponent } from "@tanstack/react-router";
import { filtersOf, root } from "./root";

const adminAllocations = createRoute({
  getParentRoute: () => root,
  path: "/admin/allocations",
  validateSearch: filtersOf("status", "sku", "node", "tenant", "older", "newer", "columns"),
  component: lazyRouteComponent(() => import("../screens/admin/allocations"), "AdminAllocations"),
});
const adminAllocation = createRoute({
  getParentRoute: () => root,
  path: "/admin/allocations/$id",
  component: lazyRouteComponent(() => import("../screens/admin/allocation"), "AdminAllocation"),
});

const policies = createRoute({
  getParentRoute: () => root,
  path: "/admin/policies",
  validateSearch: filtersOf("prefix", "columns"),
  component: lazyRouteComponent(() => import("../screens/admin/policies"), "Policies"),
});
const policy = createRoute({ getParentRoute: () => root, path: "/admin/policies/$key", component: lazyRouteComponent(() => import("../screens/admin/policy"), "Policy") });
const users = createRoute({
  getParentRoute: () => root,
  path: "/admin/users",
  validateSearch: filtersOf("q", "role", "tenant", "columns"),
  component: lazyRouteComponent(() => import("../screens/admin/users"), "Users"),
});
const user = createRoute({ getParentRoute: () => root, path: "/admin/users/$id", component: lazyRouteComponent(() => import("../screens/admin/user"), "User") });
const terminals = createRoute({
  getParentRoute: () => root,
  path: "/admin/terminal-sessions",
  validateSearch: filtersOf("status", "node", "tenant", "columns"),
  component: lazyRouteComponent(() => import("../screens/admin/terminals"), "Terminals"),
});
const sessions = createRoute({
  getParentRoute: () => root,
  path: "/admin/sessions",
  validateSearch: filtersOf("user", "columns"),
  component: lazyRouteComponent(() => import("../screens/admin/sessions"), "AdminSessions"),
});
const tenants = createRoute({
  getParentRoute: () => root,
  path: "/admin/tenants",
  validateSearch: filtersOf("columns"),
  component: lazyRouteComponent(() => import("../screens/admin/tenants"), "Tenants"),
});
const tenant = createRoute({ getParentRoute: () => root, path: "/admin/tenants/$id", component: lazyRouteComponent(() => import("../screens/admin/tenant"), "Tenant") });
const payments = createRoute({
  getParentRoute: () => root,
  path: "/admin/payments",
  validateSearch: filtersOf("status", "tenant", "columns"),
  component: lazyRouteComponent(() => import("../screens/admin/payments"), "Payments"),
});
const audit = createRoute({
  getParentRoute: () => root,
  path: "/admin/audit",
  validateSearch: filtersOf("actor", "action", "target", "tenant", "from", "to", "columns"),
  component: lazyRouteComponent(() => import("../screens/admin/audit"), "Audit"),
});
const events = createRoute({
  getParentRoute: () => root,
  path: "/admin/events",
  validateSearch: filtersOf("consumer", "stream", "subject", "state", "columns"),
  component: lazyRouteComponent(() => import("../screens/admin/events"), "Events"),
});
const deadLetter = createRoute({ getParentRoute: () => root, path: "/admin/events/$id", component: lazyRouteComponent(() => import("../screens/admin/deadletter"), "DeadLetter") });
const runbooks = createRoute({ getParentRoute: () => root, path: "/runbooks", component: lazyRouteComponent(() => import("../screens/runbook"), "Runbooks") });
const runbook = createRoute({ getParentRoute: () => root, path: "/runbooks/$name", component: lazyRouteComponent(() => import("../screens/runbook"), "Runbook") });

// operatorRoutes are the screens of all tenants and of the platform, which only its roles open.
export const operatorRoutes = [adminAllocations, adminAllocation, policies, policy, users, user, sessions, terminals, tenants, tenant, payments, audit, events, deadLetter, runbooks, runbook] as const;
