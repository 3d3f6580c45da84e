package manage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/protocol"
)

// FaultReport is a tenant's report of a fault that the platform has not detected.
type FaultReport struct {
	ID            uuid.UUID
	Allocation    ids.Allocation
	Tenant        ids.Tenant
	Node          ids.Node
	GPU           string // UUID; empty: the node
	Message       string
	ReportedBy    string
	ReportedAt    time.Time
	Status        string // open | confirmed | rejected
	DecidedBy     string
	DecidedAt     *time.Time
	DecidedReason string
}

// CreditFault credits the charges of an allocation since a confirmed report. The API cannot write credits.
type CreditFault struct {
	Report uuid.UUID `json:"report"`
}

// Kind names the job to River.
func (CreditFault) Kind() string { return "credit_fault" }

// InsertOpts uses River's 25 attempts, because no other job repeats this one.
func (CreditFault) InsertOpts() river.InsertOpts { return river.InsertOpts{Queue: keys.QueueAccess} }

// ReportFault stores a tenant's report about an active allocation. The platform charges on until an operator
// confirms the fault, and then credits the time since the report.
func (s *Service) ReportFault(ctx context.Context, ch identity.Change[FaultReport], a allocation.Allocation, gpu, message string) (FaultReport, error) {
	if a.State != allocation.Active {
		return FaultReport{}, errs.New(errs.AllocationNotActive, "the allocation is %s: a fault can be reported while it is active", a.State)
	}
	r := FaultReport{
		ID: uuid.Must(uuid.NewV7()), Allocation: a.ID, Tenant: a.Tenant, Node: a.Node, GPU: gpu, Message: message, ReportedBy: ch.Caller.Actor(),
		ReportedAt: s.Clock.Now().Truncate(time.Microsecond), Status: "open",
	}
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if gpu != "" {
			own, err := s.Inventory.GPUsOf(ctx, tx, a.ID)
			if err != nil {
				return err
			}
			if !slices.Contains(own, gpu) {
				return errs.Invalid("gpu", "is not a GPU of this allocation")
			}
		}
		b := &pgx.Batch{}
		b.Queue(insertFault, r.ID, r.Allocation, r.Tenant, r.Node, r.GPU, r.Message, r.ReportedBy, r.ReportedAt)
		return s.queueFault(ctx, tx, b, ch, r, a, "allocation.report_fault", map[string]any{"report_id": r.ID.String(), "gpu": gpu, "message": message})
	})
	return r, err
}

func (s *Service) queueFault(ctx context.Context, tx pgx.Tx, b *pgx.Batch, ch identity.Change[FaultReport], r FaultReport, a allocation.Allocation, action string, after any) error {
	reply := identity.Reply{}
	if ch.Answer != nil {
		reply = ch.Answer(r)
	}
	s.Identity.QueueKey(b, ch.Key, reply)
	audit.Queue(b, audit.Entry{Tenant: a.Tenant, By: ch.Caller.Cause(), Action: action, Target: a.URN(s.Naming), After: after})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("recording a fault of %s: %w", a.ID, err)
	}
	return nil
}

// DecideFault confirms or rejects a report. A confirmed fault marks the GPU, or the node, as unhealthy: it is not sold,
// and the allocation is not charged until an operator removes the health override.
func (s *Service) DecideFault(ctx context.Context, ch identity.Change[FaultReport], id uuid.UUID, confirmed bool, reason string) (r FaultReport, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if r, err = fault(ctx, tx, lockFault, id); err != nil {
			return err
		}
		if r.Status != "open" {
			return errs.New(errs.Conflict, "the report is already %s", r.Status)
		}
		now := s.Clock.Now().Truncate(time.Microsecond)
		r.Status, r.DecidedBy, r.DecidedAt, r.DecidedReason = "rejected", ch.Caller.Actor(), &now, reason
		a, err := s.Lock(ctx, tx, r.Allocation)
		if err != nil {
			return err
		}
		if confirmed && r.GPU == "" && ch.Caller.Role != "admin" {
			return errs.New(errs.Forbidden, "only an administrator marks a whole node as unhealthy").Try("have an administrator confirm the report")
		}
		if confirmed {
			r.Status = "confirmed"
			if err := s.confirm(ctx, tx, r, a); err != nil {
				return err
			}
		}
		b := &pgx.Batch{}
		b.Queue(decideFault, r.ID, r.Status, r.DecidedBy, now, reason)
		return s.queueFault(ctx, tx, b, ch, r, a, "allocation.decide_fault", map[string]any{"report_id": r.ID.String(), "status": r.Status, "reason": reason})
	})
	if err == nil {
		s.Inventory.Wake()
	}
	return r, err
}

func (s *Service) confirm(ctx context.Context, tx pgx.Tx, r FaultReport, a allocation.Allocation) error {
	// A GPU stays faulty after the release of its tenant. A whole node is marked only while the tenant is on it.
	if r.GPU != "" || a.Node == r.Node && a.State == allocation.Active {
		if err := s.Inventory.Override(ctx, tx, r.Node, nodehealth.Override{
			Target: r.GPU, Check: "tenant_report", Level: protocol.Unhealthy, Message: "a tenant reported: " + r.Message, Actor: r.DecidedBy, Classes: []protocol.Class{protocol.PreventAllocations},
		}); err != nil {
			return err
		}
	}
	if _, err := s.Jobs.InsertTx(ctx, tx, CreditFault{Report: r.ID}, nil); err != nil {
		return fmt.Errorf("queueing the credit of %s: %w", r.ID, err)
	}
	return nil
}

// CreditConfirmed credits the usage of the allocation of a confirmed report from the report to the decision, also of
// intervals that have ended since: by a pause, a new price or the release of the allocation. It pauses nothing: the
// health that the decision has set does, and the GPU may be healthy again when this runs.
func (s *Service) CreditConfirmed(ctx context.Context, tx pgx.Tx, id uuid.UUID) error {
	r, err := fault(ctx, tx, selectFault, id)
	if err != nil || r.Status != "confirmed" {
		return err
	}
	a, err := s.Lock(ctx, tx, r.Allocation)
	if err != nil {
		return err
	}
	return metering.CreditTime(ctx, tx, a.ID, metering.NodeUnhealthy, r.ReportedAt, *r.DecidedAt)
}

// Faults lists reports of all tenants, the newest first, after an id.
func (s *Service) Faults(ctx context.Context, status string, after uuid.UUID, limit int) ([]FaultReport, error) {
	return s.faults(ctx, selectFaults, status, after, limit)
}

// FaultsOf lists the reports of an allocation, the newest first, after an id.
func (s *Service) FaultsOf(ctx context.Context, of ids.Allocation, after uuid.UUID, limit int) ([]FaultReport, error) {
	return s.faults(ctx, selectFaultsOf, of, after, limit)
}

func (s *Service) faults(ctx context.Context, sql string, of any, after uuid.UUID, limit int) ([]FaultReport, error) {
	if after == uuid.Nil {
		after = uuid.Max
	}
	rows, err := s.DB.Query(ctx, sql, of, after, limit)
	if err != nil {
		return nil, fmt.Errorf("listing fault reports: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[FaultReport])
	if err != nil {
		return nil, fmt.Errorf("listing fault reports: %w", err)
	}
	return list, nil
}

func fault(ctx context.Context, tx pgx.Tx, sql string, id uuid.UUID) (FaultReport, error) {
	rows, err := tx.Query(ctx, sql, id)
	if err != nil {
		return FaultReport{}, fmt.Errorf("reading fault report %s: %w", id, err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[FaultReport])
	if errors.Is(err, pgx.ErrNoRows) {
		return FaultReport{}, errs.New(errs.NotFound, "no such fault report")
	}
	if err != nil {
		return FaultReport{}, fmt.Errorf("reading fault report %s: %w", id, err)
	}
	return r, nil
}

const (
	faultFields = `id, allocation_id, org_id, node_id, gpu, message, reported_by, reported_at, status, decided_by, decided_at, decided_reason`
	insertFault = `
		INSERT INTO fault_reports (id, allocation_id, org_id, node_id, gpu, message, reported_by, reported_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`
	selectFault  = `SELECT ` + faultFields + ` FROM fault_reports WHERE id = $1`
	lockFault    = selectFault + ` FOR UPDATE`
	decideFault  = `UPDATE fault_reports SET status = $2, decided_by = $3, decided_at = $4, decided_reason = $5 WHERE id = $1`
	selectFaults = `SELECT ` + faultFields + ` FROM fault_reports WHERE ($1 = '' OR status = $1) AND id < $2 ORDER BY id DESC LIMIT $3`

	selectFaultsOf = `SELECT ` + faultFields + ` FROM fault_reports WHERE allocation_id = $1 AND id < $2 ORDER BY id DESC LIMIT $3`
)
