package allocation

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/protocol"
)

// The methods below write down what the loop has observed. Each is called with
// the row locked and the observation checked, and does nothing when the row is
// already past it: a job may run any number of times.

// TaskPlaced follows a task into its node's mailbox.
func (s *Service) TaskPlaced(ctx context.Context, tx pgx.Tx, a Allocation) (Allocation, error) {
	if a.State != Requested {
		return a, nil // a task that heals an active allocation causes no transition
	}
	return s.move(ctx, tx, a, TaskQueued, "", "")
}

// NodeReady opens the interval: from here on it costs.
func (s *Service) NodeReady(ctx context.Context, tx pgx.Tx, a Allocation, seen metering.Observation) error {
	a, err := s.TaskPlaced(ctx, tx, a)
	if err != nil || a.State != Provisioning {
		return err
	}
	if a, err = s.move(ctx, tx, a, NodeReady, "", ""); err != nil {
		return err
	}
	if a, err = s.priced(ctx, tx, a); err != nil {
		return err
	}
	price, err := money.Due(a.PriceMinor, int64(a.GPUs), int64(time.Hour/time.Second))
	if err != nil {
		return fmt.Errorf("pricing %s: %w", a.ID, err)
	}
	b := &pgx.Batch{}
	fleet.QueueProvisioned(b, a.Node, true)
	metering.QueueOpen(b, a.interval(), metering.ObservedReady, &seen)
	event.Queue(b, s.event(a, SubjectActive, ActiveEvent{Allocation: a.ID.String(), Slots: a.GPUs, ActiveAt: *a.ActiveAt, PriceMinor: price, Currency: a.Currency}))
	return send(ctx, tx, b, a)
}

func (a Allocation) interval() metering.Interval {
	return metering.Interval{
		Allocation: a.ID, Tenant: a.Tenant, Project: a.Project, User: a.User, SKU: a.SKU, GPUs: a.GPUs,
		PriceMinor: a.PriceMinor, Currency: a.Currency,
	}
}

// SlotsGone frees the slots that the node has proved clean, and deletes the desired object. A failed
// allocation stays failed; its slots become free as well.
func (s *Service) SlotsGone(ctx context.Context, tx pgx.Tx, a Allocation, proof protocol.Proof) error {
	over, err := s.conclude(ctx, tx, a, "")
	if err != nil || !over {
		return err
	}
	key, err := s.Inventory.ProofKey(ctx, tx, a.Node)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, storeProof, a.ID, proof, key); err != nil {
		return fmt.Errorf("storing the proof of %s: %w", a.ID, err)
	}
	return s.Inventory.Free(ctx, tx, a.ID, proof)
}

// SlotsInspected ends an allocation whose last slot operators have freed after an inspection. A node that still
// has something of it reports so, and the loop releases that like any leftover.
func (s *Service) SlotsInspected(ctx context.Context, tx pgx.Tx, a Allocation) error {
	left, err := s.Inventory.OpenClaims(ctx, tx, a.ID)
	if err == nil && left == 0 {
		_, err = s.conclude(ctx, tx, a, "operators have inspected its slots")
	}
	return err
}

// conclude ends an allocation of which nothing is left, and deletes its desired object. It reports whether a
// release was requested, or the allocation failed.
func (s *Service) conclude(ctx context.Context, tx pgx.Tx, a Allocation, message string) (over bool, err error) {
	switch a.State {
	case Requested, Provisioning, Active, Released:
		return false, nil
	case Failed:
	case Releasing, ReleaseFailed:
		if a, err = s.move(ctx, tx, a, CleanupProved, "", message); err != nil {
			return false, err
		}
		if err := s.queueReleased(ctx, tx, a); err != nil {
			return false, err
		}
	}
	return true, s.Desired.Drop(ctx, tx, desired.KindAllocation, ids.Object{UUID: a.ID.UUID})
}

func (s *Service) queueReleased(ctx context.Context, tx pgx.Tx, a Allocation) error {
	seconds, cost, err := metering.Closed(ctx, tx, a.ID)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	event.Queue(b, s.event(a, SubjectReleased, ReleasedEvent{Allocation: a.ID.String(), ReleasedAt: a.StatusAt, Seconds: seconds, CostMinor: cost, Currency: a.Currency}))
	return send(ctx, tx, b, a)
}

// Exhaust ends an attempt whose tries or time are exhausted. The desired object becomes a tombstone,
// because the node may still have something to clean.
func (s *Service) Exhaust(ctx context.Context, tx pgx.Tx, a Allocation, attempts int, why string) error {
	before := a.State
	if before != Requested && before != Provisioning && before != Releasing {
		return nil
	}
	a, err := s.move(ctx, tx, a, Exhausted, reasonOf(before), why)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	if before == Releasing {
		if err := s.Inventory.Quarantine(ctx, tx, a.ID, "release failed"); err != nil {
			return err
		}
		event.Queue(b, s.event(a, SubjectReleaseFailed, ReleaseFailedEvent{Allocation: a.ID.String(), Reason: why, Attempts: attempts, Slots: a.GPUs}))
		return send(ctx, tx, b, a)
	}
	if a.placed() {
		if err := s.tombstone(ctx, tx, a, reasonFailed); err != nil {
			return err
		}
		fleet.QueueProvisioned(b, a.Node, false)
	}
	slots.QueueDirty(b, a.ID)
	event.Queue(b, s.event(a, SubjectFailed, FailedEvent{Allocation: a.ID.String(), Reason: reasonFailed, Message: why, Attempts: attempts}))
	return send(ctx, tx, b, a)
}

func reasonOf(s State) string {
	if s == Releasing {
		return "" // the reason of the release stays
	}
	return reasonFailed
}

// Expire releases at the end of the lease.
func (s *Service) Expire(ctx context.Context, tx pgx.Tx, a Allocation) error {
	if a.State != Active {
		return nil
	}
	_, err := s.release(ctx, tx, a, ReasonTTL, "", identity.Caller{})
	return err
}

// ReleaseIdle releases an allocation whose GPUs were idle until the announced time.
func (s *Service) ReleaseIdle(ctx context.Context, tx pgx.Tx, a Allocation, why string) error {
	a.actor = policyActor
	_, err := s.release(ctx, tx, a, ReasonIdle, why, identity.Caller{})
	return err
}

// Committed names what costs a tenant money or is about to, of each that has any.
func (s *Service) Committed(ctx context.Context, q pg.Queryer, tenants []ids.Tenant) (map[ids.Tenant][]string, error) {
	rows, err := q.Query(ctx, selectCommitted, tenants)
	if err != nil {
		return nil, fmt.Errorf("listing what is committed: %w", err)
	}
	running := map[ids.Tenant][]string{}
	var tenant ids.Tenant
	var id ids.Allocation
	_, err = pgx.ForEachRow(rows, []any{&tenant, &id}, func() error {
		running[tenant] = append(running[tenant], id.String())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing what is committed: %w", err)
	}
	return running, nil
}

// Deplete releases what a tenant that has run out of money has committed itself
// to, active or not yet, and names it.
func (s *Service) Deplete(ctx context.Context, tx pgx.Tx, tenant ids.Tenant) (released []string, err error) {
	rows, err := tx.Query(ctx, lockCommitted, tenant)
	if err != nil {
		return nil, fmt.Errorf("locking what is committed: %w", err)
	}
	list, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, err
	}
	for _, a := range list {
		a.actor = "system:billing"
		if _, err := s.ForceRelease(ctx, tx, a, ReasonDepleted, "", identity.Caller{}); err != nil {
			return nil, err
		}
		released = append(released, a.ID.String())
	}
	return released, nil
}

func send(ctx context.Context, tx pgx.Tx, b *pgx.Batch, a Allocation) error {
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("recording %s as %s: %w", a.ID, a.State, err)
	}
	return nil
}
