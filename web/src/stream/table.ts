import type { QueryKey } from "@tanstack/react-query";
import { keys } from "../query/keys";
import type { StreamEvent } from "./sse";

type Payload = StreamEvent["payload"];
type Changed = (payload: Payload) => readonly QueryKey[];

const text = (value: unknown) => (typeof value === "string" ? value : "");

// idOf is the last part of the URN of an event.
const idOf = ({ urn }: Payload) => text(urn).split(":").at(-1) ?? "";

const money: Changed = () => [keys.billing, keys.overview, keys.payments, keys.tenants, keys.users];
const capacity = [keys.skus, keys.status, keys.fleetLists, keys.nodes];
const allocation: Changed = (payload) => [keys.allocationLists, keys.allocation(idOf(payload)), keys.overview, keys.adminAllocations];
// moved is an allocation that begins or ends to use slots and money.
const moved: Changed = (payload) => [...allocation(payload), keys.billingOverview, keys.previews, ...capacity];
const access: Changed = (payload) => [...allocation(payload), keys.members];
const several: Changed = ({ allocation_ids: ids }) => [...(Array.isArray(ids) ? ids.map((id) => keys.allocation(text(id))) : []), keys.allocationLists, keys.billing, keys.overview];
const node: Changed = ({ name }) => [keys.fleetLists, typeof name === "string" ? keys.node(name) : keys.nodes, keys.ops, keys.status];
const change: Changed = ({ plan_id: id }) => [keys.changeLists, keys.change(text(id)), keys.drift, keys.ops];
const drift: Changed = ({ kind, name }) => [keys.drift, keys.ops, ...(kind === "Node" ? [keys.node(text(name))] : [])];

const objects: Record<string, Changed> = {
  Allocation: ({ object_id: id }) => [keys.allocationLists, keys.allocation(text(id)), keys.overview],
  Node: node,
  SKU: () => [keys.skus, keys.previews],
  Policy: () => [keys.policies],
};

// table has the queries that each subject changes. A test compares the subjects with api/asyncapi.
export const table: Record<string, Changed> = {
  "provisioning.requested": moved,
  "provisioning.active": moved,
  "provisioning.failed": moved,
  "provisioning.releasing.requested": moved,
  "provisioning.releasing.completed": moved,
  "provisioning.release_failed": moved,
  "provisioning.force_release_requested": moved,
  "provisioning.expiring": allocation,
  "provisioning.release_scheduled": allocation,
  "provisioning.release_cancelled": allocation,
  "provisioning.degraded": moved,
  "provisioning.recovered": moved,
  "provisioning.access_lost": access,
  "billing.low_balance_warning": money,
  "billing.auto_release_pending": several,
  "billing.auto_release_cleared": several,
  "billing.balance_adjusted": money,
  "billing.balance_depleted": several,
  "billing.storage_deleted": several,
  "billing.storage_deletion_cancelled": several,
  "billing.storage_deletion_scheduled": several,
  "payments.balance_credited": money,
  "payments.refunded": money,
  "payments.disputed": money,
  "payments.auto_topup_changed": money,
  "payments.auto_topup_paused": money,
  "payments.reconcile_failed": money,
  "fleet.revision_applied": change,
  "fleet.revision_waiting": change,
  "fleet.revision_rejected": change,
  "fleet.plan_decided": change,
  "fleet.object_changed": (payload) => objects[text(payload["kind"])]?.(payload) ?? [],
  "fleet.drift_opened": drift,
  "fleet.drift_closed": drift,
  "fleet.node_health_changed": node,
  "fleet.slot_quarantined": node,
  "fleet.node_enrolled": node,
  "fleet.node_draining": node,
  "fleet.node_drained": node,
  "fleet.node_drain_cancelled": node,
  "fleet.node_retiring": node,
  "fleet.mass_action_stopped": () => [keys.ops],
  "fleet.agent_update_stopped": () => [keys.ops, keys.fleetLists],
};

// unshown are subjects that no screen shows, with the reason.
export const unshown: Record<string, string> = {
  "dlq.{stream}.{subject}": "Dead letters are on NATS only, and no event of the stream.",
};

// items are no events: the stream has them for the user alone.
const items: Record<string, readonly QueryKey[]> = { notification: [keys.notifications], unread: [keys.notifications] };

// keysOf returns the queries that an event changes: all of them for the subject of a newer server.
export const keysOf = ({ subject, payload }: StreamEvent): readonly QueryKey[] => items[subject] ?? table[subject]?.(payload) ?? [[]];
