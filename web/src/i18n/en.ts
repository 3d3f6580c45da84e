// Every text of the portal, by screen in the folder en. Plurals and values are ICU.
import { adminAllocations } from "./en/admin-allocations";
import { allocation } from "./en/allocation";
import { allocations } from "./en/allocations";
import { billing } from "./en/billing";
import { sources, changes, change } from "./en/changes";
import { desired } from "./en/desired";
import { drift } from "./en/drift";
import { events } from "./en/events";
import { evidence } from "./en/evidence";
import { files } from "./en/files";
import { fleet } from "./en/fleet";
import { columns, help, palette, views } from "./en/hands";
import { home } from "./en/home";
import { intervals } from "./en/intervals";
import { keys } from "./en/keys";
import { launch } from "./en/launch";
import { live } from "./en/live";
import { logs } from "./en/logs";
import { members } from "./en/members";
import { node } from "./en/node";
import { policies } from "./en/policies";
import { audit } from "./en/audit";
import { payments } from "./en/admin-payments";
import { users, sessions, tenants } from "./en/people";
import { notifications } from "./en/notifications";
import { ops } from "./en/ops";
import { autoTopup, payment, refunds } from "./en/payments";
import { preferences } from "./en/preferences";
import { platform } from "./en/platform";
import { profile } from "./en/profile";
import { projects, accounts } from "./en/projects";
import { shell } from "./en/shell";
import { runbooks } from "./en/runbooks";
import { service, nodes } from "./en/service";
import { slots } from "./en/slots";
import { storageKeys } from "./en/storage-keys";
import { status } from "./en/status";
import { states, table, confirm, secret, toast, filter } from "./en/system";
import { recordings } from "./en/recordings";
import { terminal } from "./en/terminal";
import { topology } from "./en/topology";
import { webhooks } from "./en/webhooks";
import { words } from "./en/words";

const en = {
  shell,
  live,
  states,
  table,
  confirm,
  secret,
  toast,
  filter,
  status,
  home,
  allocations,
  allocation,
  recordings,
  terminal,
  logs,
  launch,
  keys,
  projects,
  accounts,
  members,
  platform,
  words,
  drift,
  sources,
  changes,
  change,
  files,
  storageKeys,
  fleet,
  node,
  ops,
  profile,
  billing,
  help,
  palette,
  columns,
  views,
  intervals,
  payment,
  autoTopup,
  refunds,
  adminAllocations,
  policies,
  users,
  sessions,
  tenants,
  payments,
  audit,
  desired,
  runbooks,
  notifications,
  preferences,
  webhooks,
  events,
  evidence,
  service,
  nodes,
  slots,
  topology,
};

export default en;
