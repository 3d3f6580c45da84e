import { type RouterHistory, createRoute, createRouter, lazyRouteComponent } from "@tanstack/react-router";
import { Crashed } from "./crashed";
import { operatorRoutes } from "./operators";
import { filtersOf, root } from "./root";

const home = createRoute({ getParentRoute: () => root, path: "/", component: lazyRouteComponent(() => import("../screens/home"), "Home") });
const allocations = createRoute({
  getParentRoute: () => root,
  path: "/allocations",
  validateSearch: filtersOf("status", "sku", "name", "q", "sort", "columns"),
  component: lazyRouteComponent(() => import("../screens/allocations"), "Allocations"),
});
const allocation = createRoute({
  getParentRoute: () => root,
  path: "/allocations/$id",
  validateSearch: filtersOf("hours"),
  component: lazyRouteComponent(() => import("../screens/allocation"), "Allocation"),
});
const terminal = createRoute({
  getParentRoute: () => root,
  path: "/allocations/$id/terminal",
  component: lazyRouteComponent(() => import("../screens/terminal"), "TerminalScreen"),
});
const launch = createRoute({ getParentRoute: () => root, path: "/launch", component: lazyRouteComponent(() => import("../screens/launch"), "Launch") });
const files = createRoute({
  getParentRoute: () => root,
  path: "/files",
  validateSearch: filtersOf("path", "project", "columns"),
  component: lazyRouteComponent(() => import("../screens/files"), "Files"),
});
const deletedFiles = createRoute({
  getParentRoute: () => root,
  path: "/files/deleted",
  validateSearch: filtersOf("project", "columns"),
  component: lazyRouteComponent(() => import("../screens/deleted-files"), "DeletedFiles"),
});
const storageKeys = createRoute({
  getParentRoute: () => root,
  path: "/files/keys",
  validateSearch: filtersOf("project", "columns"),
  component: lazyRouteComponent(() => import("../screens/storage-keys"), "StorageKeys"),
});
const billing = createRoute({
  getParentRoute: () => root,
  path: "/billing",
  validateSearch: filtersOf("by"),
  component: lazyRouteComponent(() => import("../screens/billing"), "Billing"),
});
const payment = createRoute({
  getParentRoute: () => root,
  path: "/payments/$id",
  // The link of the payment page that cancels a payment ends with ?cancelled.
  validateSearch: (search: Record<string, unknown>): { cancelled?: true } => ("cancelled" in search ? { cancelled: true } : {}),
  component: lazyRouteComponent(() => import("../screens/payment"), "Payment"),
});
const projects = createRoute({ getParentRoute: () => root, path: "/projects", validateSearch: filtersOf("q", "columns"), component: lazyRouteComponent(() => import("../screens/projects"), "Projects") });
const project = createRoute({ getParentRoute: () => root, path: "/projects/$id", component: lazyRouteComponent(() => import("../screens/project"), "Project") });
const account = createRoute({
  getParentRoute: () => root,
  path: "/service-accounts/$id",
  component: lazyRouteComponent(() => import("../screens/account"), "ServiceAccount"),
});
const members = createRoute({ getParentRoute: () => root, path: "/members", component: lazyRouteComponent(() => import("../screens/members"), "Members") });
const accessKeys = createRoute({ getParentRoute: () => root, path: "/keys", component: lazyRouteComponent(() => import("../screens/keys"), "Keys") });
const profile = createRoute({ getParentRoute: () => root, path: "/profile", component: lazyRouteComponent(() => import("../screens/profile"), "Profile") });
const status = createRoute({ getParentRoute: () => root, path: "/status", component: lazyRouteComponent(() => import("../screens/status"), "PlatformStatus") });
const notifications = createRoute({
  getParentRoute: () => root,
  path: "/notifications",
  validateSearch: filtersOf("state", "columns"),
  component: lazyRouteComponent(() => import("../screens/notifications"), "Notifications"),
});
const preferences = createRoute({ getParentRoute: () => root, path: "/notifications/preferences", component: lazyRouteComponent(() => import("../screens/preferences"), "Preferences") });
const webhooks = createRoute({ getParentRoute: () => root, path: "/webhooks", validateSearch: filtersOf("columns"), component: lazyRouteComponent(() => import("../screens/webhooks"), "Webhooks") });
const webhook = createRoute({
  getParentRoute: () => root,
  path: "/webhooks/$id",
  validateSearch: filtersOf("status"),
  component: lazyRouteComponent(() => import("../screens/webhook"), "Webhook"),
});
const evidence = createRoute({
  getParentRoute: () => root,
  path: "/evidence",
  validateSearch: filtersOf("kind", "status", "about", "columns"),
  component: lazyRouteComponent(() => import("../screens/evidence"), "Evidence"),
});
const evidenceBundle = createRoute({ getParentRoute: () => root, path: "/evidence/$id", component: lazyRouteComponent(() => import("../screens/bundle"), "EvidenceBundle") });
const drift = createRoute({
  getParentRoute: () => root,
  path: "/drift",
  validateSearch: filtersOf("status", "kind", "columns"),
  component: lazyRouteComponent(() => import("../screens/drift"), "Drift"),
});
const changes = createRoute({
  getParentRoute: () => root,
  path: "/changes",
  validateSearch: filtersOf("status", "origin", "source", "columns"),
  component: lazyRouteComponent(() => import("../screens/changes"), "Changes"),
});
const change = createRoute({ getParentRoute: () => root, path: "/changes/$id", component: lazyRouteComponent(() => import("../screens/change"), "Change") });
const fleet = createRoute({
  getParentRoute: () => root,
  path: "/fleet",
  validateSearch: filtersOf("region", "sku", "lifecycle", "health", "reachability", "q", "sort", "columns"),
  component: lazyRouteComponent(() => import("../screens/fleet"), "Fleet"),
});
const node = createRoute({ getParentRoute: () => root, path: "/fleet/$name", component: lazyRouteComponent(() => import("../screens/node"), "Node") });
const ops = createRoute({ getParentRoute: () => root, path: "/ops", component: lazyRouteComponent(() => import("../screens/ops"), "Ops") });

export const newRouter = (history?: RouterHistory) =>
  createRouter({
    history,
    routeTree: root.addChildren([home, allocations, allocation, terminal, launch, files, deletedFiles, storageKeys, billing, payment, projects, project, account, members, accessKeys, profile, notifications, preferences, webhooks, webhook, evidence, evidenceBundle, status, drift, changes, change, fleet, node, ops, ...operatorRoutes]),
    basepath: "/portal",
    defaultErrorComponent: Crashed,
    defaultPreload: "intent",
    // Without it, a form that is open for one object would be sent for the next one.
    defaultRemountDeps: ({ params }) => params,
  });

declare module "@tanstack/react-router" {
  interface Register {
    router: ReturnType<typeof newRouter>;
  }
}
