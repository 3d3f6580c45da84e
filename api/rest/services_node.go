package rest

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/product/slots"
)

// What the handlers ask about machines.
type (
	// Fleet reads the machines.
	Fleet interface {
		Capacity(ctx context.Context) ([]slots.Capacity, error)
		Nodes(ctx context.Context, after string, limit int) ([]fleet.Node, error)
		Node(ctx context.Context, name string) (fleet.Node, []fleet.Device, error)
		Wiring(ctx context.Context, q pg.Queryer, id ids.Node) (fleet.Wiring, error)
		Health(ctx context.Context, q pg.Queryer, id ids.Node) ([]nodehealth.Report, error)
	}
	// Holding takes machines and slots off the market, and gives them back.
	Holding interface {
		Cordon(ctx context.Context, ch identity.Change[fleet.Node], name, reason string, until *time.Time) (fleet.Node, error)
		Drain(ctx context.Context, ch identity.Change[fleet.Node], name, reason string, deadline *time.Time) (fleet.Node, error)
		Uncordon(ctx context.Context, ch identity.Change[fleet.Node], name string, force bool) (fleet.Node, error)
		QuarantineSlot(ctx context.Context, ch identity.Change[slots.Slot], id ids.Slot, reason string) (slots.Slot, error)
		ClearSlot(ctx context.Context, ch identity.Change[slots.Slot], id ids.Slot, reason string) (slots.Slot, error)
	}
	// Judging ends what a node may say, and puts a person's word beside its own.
	Judging interface {
		Revoke(ctx context.Context, ch identity.Change[fleet.Node], name, reason string) (fleet.Node, error)
		OverrideHealth(ctx context.Context, ch identity.Change[fleet.Node], name string, w nodehealth.HealthOverride) (fleet.Node, error)
		Accept(ctx context.Context, ch identity.Change[fleet.Node], name, fingerprint, reason string) (fleet.Node, error)
	}
	// Inventory is all that this door asks of that room.
	Inventory interface {
		Fleet
		Holding
		Judging
	}
	// Machines is what is done to nodes that more than one room has a part in.
	Machines interface {
		// Probe asks a node for a whole report and waits for it.
		Probe(ctx context.Context, c identity.Caller, n fleet.Node) error
		// Seen is what the rooms know of a node beside its own.
		Seen(ctx context.Context, n fleet.Node, tasks int) (NodeSeen, error)
		// Token lets a node enrol.
		Token(ctx context.Context, c identity.Caller, n fleet.Node) (EnrolmentToken, error)
	}
)

// NodeSeen is what is known of a node beside its own row; what is nil is not there.
type NodeSeen struct {
	Object       *desired.Object
	ReportedAt   *time.Time
	Tasks        []NodeTask
	Certificates []NodeCertificate
}

// NodeTask is an order in a node's mailbox, without what it says to whom.
type NodeTask struct {
	ID                                ids.Task
	Type, Status, Step, Code, Message string
	Fence                             int64
	Attempt                           int
	Allocation                        *uuid.UUID // nil: about the node
	CreatedAt                         time.Time
	FinishedAt                        *time.Time
}

// NodeCertificate is one that a node has or had.
type NodeCertificate struct {
	Serial, Status, Issuer string
	NotAfter               time.Time
	RevokedAt              *time.Time
	Reason                 string
}

// EnrolmentToken is a token with which a node enrols.
type EnrolmentToken struct {
	Token     string
	ExpiresAt time.Time
	Install   *fleet.Install // nil if this server has no agent build
}

// personOf is the person whom an actor of audit rows is.
func personOf(actor string) (id uuid.UUID, ok bool) {
	text, is := strings.CutPrefix(actor, "user:")
	if !is {
		return id, false
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}
