package rest_test

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/product/slots"
)

// machines is a fleet of one node, which answers each verb with how it then stands.
type machines struct{ *people }

var (
	node1 = fleet.Node{ID: ids.New[ids.Node](), Name: "sim-1", Spec: desired.Node{SKU: h100.Name, Region: "eu-1", Onboarding: "simulated"}, Lifecycle: "active", Health: "healthy", Reachability: "reachable", Slots: 8, Free: 5}
	slot1 = slots.Slot{ID: ids.New[ids.Slot](), Node: node1.ID, Host: node1.Name, GPU: "GPU-1", SKU: h100.Name, Region: "eu-1", Status: "clean"}
)

func (machines) Capacity(context.Context) ([]slots.Capacity, error) {
	return []slots.Capacity{{SKU: h100.Name, Region: "eu-1", Nodes: 1, Total: 8, Free: 5, Claimed: 3}}, nil
}

func (machines) Nodes(context.Context, string, int) ([]fleet.Node, error) {
	return []fleet.Node{node1}, nil
}

func (machines) Node(_ context.Context, name string) (fleet.Node, []fleet.Device, error) {
	if name != node1.Name {
		return fleet.Node{}, nil, errs.New(errs.NotFound, "no node is named %s", name)
	}
	return node1, []fleet.Device{{UUID: "GPU-1", Model: "NVIDIA H100", MemoryMiB: 81559, Health: "healthy", Present: true, Slot: &slot1.ID.UUID, SlotStatus: "clean"}}, nil
}

func (machines) Wiring(context.Context, pg.Queryer, ids.Node) (fleet.Wiring, error) {
	return fleet.Wiring{Topology: []byte(`{"gpus":[]}`), Fingerprint: "8f3a"}, nil
}

func (machines) Health(context.Context, pg.Queryer, ids.Node) ([]nodehealth.Report, error) {
	return []nodehealth.Report{{Source: "nvml", Level: "healthy", Check: "xid", Since: t0}}, nil
}

func (m machines) turn(ch identity.Change[fleet.Node], name string, change func(*fleet.Node)) (fleet.Node, error) {
	return effectOf(m.people, ch, func() (fleet.Node, error) {
		n, _, err := m.Node(context.Background(), name)
		if err == nil {
			change(&n)
		}
		return n, err
	})
}

func (m machines) hold(ch identity.Change[fleet.Node], name, reason string, kind fleet.HoldKind, at *time.Time) (fleet.Node, error) {
	return m.turn(ch, name, func(n *fleet.Node) {
		n.Cordoned = true
		n.Holds = []fleet.Hold{{Node: n.ID, Kind: kind, Cause: fleet.ByOperator, Owner: ch.Caller.Actor(), Reason: reason, Deadline: at, Since: t0}}
	})
}

func (m machines) Cordon(_ context.Context, ch identity.Change[fleet.Node], name, reason string, until *time.Time) (fleet.Node, error) {
	return m.hold(ch, name, reason, fleet.Cordon, until)
}

func (m machines) Drain(_ context.Context, ch identity.Change[fleet.Node], name, reason string, deadline *time.Time) (fleet.Node, error) {
	return m.hold(ch, name, reason, fleet.Drain, deadline)
}

func (m machines) Uncordon(_ context.Context, ch identity.Change[fleet.Node], name string, _ bool) (fleet.Node, error) {
	return m.turn(ch, name, func(*fleet.Node) {})
}

func (m machines) slot(ch identity.Change[slots.Slot], id ids.Slot, status string) (slots.Slot, error) {
	return effectOf(m.people, ch, func() (slots.Slot, error) {
		if id != slot1.ID {
			return slots.Slot{}, errs.New(errs.NotFound, "no such slot")
		}
		s := slot1
		s.Status = status
		return s, nil
	})
}

func (m machines) QuarantineSlot(_ context.Context, ch identity.Change[slots.Slot], id ids.Slot, _ string) (slots.Slot, error) {
	return m.slot(ch, id, "quarantined")
}

func (m machines) ClearSlot(_ context.Context, ch identity.Change[slots.Slot], id ids.Slot, _ string) (slots.Slot, error) {
	return m.slot(ch, id, "clean")
}

func (machines) Probe(context.Context, identity.Caller, fleet.Node) error { return nil }

func (m machines) Revoke(_ context.Context, ch identity.Change[fleet.Node], name, _ string) (fleet.Node, error) {
	return m.turn(ch, name, func(n *fleet.Node) { n.Reachability = "stale" })
}

func (m machines) OverrideHealth(_ context.Context, ch identity.Change[fleet.Node], name string, w nodehealth.HealthOverride) (fleet.Node, error) {
	return m.turn(ch, name, func(n *fleet.Node) { n.Health = w.Level })
}

func (m machines) Accept(_ context.Context, ch identity.Change[fleet.Node], name, fingerprint, _ string) (fleet.Node, error) {
	return m.turn(ch, name, func(n *fleet.Node) { n.Fingerprint = fingerprint })
}

func (machines) Seen(_ context.Context, n fleet.Node, _ int) (rest.NodeSeen, error) {
	return rest.NodeSeen{
		Object: &desired.Object{Kind: desired.KindNode, UID: ids.Object(n.ID), Name: n.Name, Generation: 1, Spec: []byte(`{}`), Source: desired.Source{Owner: desired.OwnerAPI}},
		Tasks:  []rest.NodeTask{{ID: ids.New[ids.Task](), Type: "node.probe", Status: "succeeded", Attempt: 1, CreatedAt: t0}}, ReportedAt: &t0,
		Certificates: []rest.NodeCertificate{{Serial: "0a", Status: "active", NotAfter: t0}},
	}, nil
}

func (machines) Token(context.Context, identity.Caller, fleet.Node) (rest.EnrolmentToken, error) {
	return rest.EnrolmentToken{Token: "gpe_secret", ExpiresAt: t0.Add(15 * time.Minute)}, nil
}

// Login signs for whoever may see the allocation.
func (r *rooms) Login(_ context.Context, ch identity.Change[allocation.Login], _ ids.Allocation, _ string) (allocation.Login, error) {
	return effectOf(r.people, ch, func() (allocation.Login, error) {
		return allocation.Login{Certificate: "ssh-ed25519-cert-v01@openssh.com AAAA", Serial: 1, ExpiresAt: t0.Add(time.Minute), Host: "sim-1", Port: 22, User: "u1"}, nil
	})
}
