package manage

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/fleet"
)

// SubjectNodeRetiring is the subject of a retirement notice.
const SubjectNodeRetiring = "fleet.node_retiring"

// RetiringEvent is the payload of fleet.node_retiring. Operators receive one for the node, and each tenant
// with allocations on the node receives one with their ids.
type RetiringEvent struct {
	Node        string    `json:"node_id"`
	Name        string    `json:"name,omitempty"` // for operators
	Reason      string    `json:"reason"`
	RetiresAt   time.Time `json:"retires_at"`
	Allocations []string  `json:"allocation_ids,omitempty"`
}

// AnnounceRetirement stores when a node will leave the fleet, and notifies the tenants on it. It releases
// nothing: an operator drains and retires the node. A later notice replaces an earlier one.
func (s *Service) AnnounceRetirement(ctx context.Context, ch identity.Change[fleet.Node], name, reason string, at time.Time) (fleet.Node, error) {
	if !at.After(s.Clock.Now()) {
		return fleet.Node{}, errs.Invalid("retires_at", "is in the past")
	}
	n, err := s.Inventory.ChangeNode(ctx, ch, name, "announce_retirement", func(tx pgx.Tx, n fleet.Node, b *pgx.Batch) (any, error) {
		live, err := s.LiveAllocations(ctx, tx, []ids.Node{n.ID}, nil)
		if err != nil {
			return nil, err
		}
		fleet.QueueRetirement(b, n.ID, at, reason)
		s.queueNotice(b, n, ids.Tenant{}, RetiringEvent{Node: n.ID.String(), Name: n.Name, Reason: reason, RetiresAt: at.UTC()})
		byTenant, order := map[ids.Tenant][]string{}, []ids.Tenant{}
		for _, a := range live {
			if byTenant[a.Tenant] == nil {
				order = append(order, a.Tenant)
			}
			byTenant[a.Tenant] = append(byTenant[a.Tenant], a.ID.String())
		}
		for _, tenant := range order {
			s.queueNotice(b, n, tenant, RetiringEvent{Node: n.ID.String(), Reason: reason, RetiresAt: at.UTC(), Allocations: byTenant[tenant]})
		}
		return map[string]any{"reason": reason, "retires_at": at.UTC(), "tenants": len(order)}, nil
	})
	if err == nil {
		s.Hints.Send(event.Topic)
	}
	return n, err
}

func (s *Service) queueNotice(b *pgx.Batch, n fleet.Node, to ids.Tenant, payload RetiringEvent) {
	event.Queue(b, event.Draft{
		Stream: event.StreamFleet, Subject: SubjectNodeRetiring, Aggregate: "retirement:" + n.ID.String() + ":" + to.String(), Sequence: s.Clock.Now().UnixMicro(),
		Tenant: to, URN: s.Inventory.Urn("node", n.ID.String()), Payload: payload,
	})
}
