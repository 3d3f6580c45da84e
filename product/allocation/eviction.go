package allocation

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// The subjects about a release that is announced: its node is to be empty, or its GPUs are idle.
const (
	SubjectReleaseScheduled = "provisioning.release_scheduled"
	SubjectReleaseCancelled = "provisioning.release_cancelled"
)

// ReleaseScheduledEvent is the payload of provisioning.release_scheduled, and without a deadline
// of provisioning.release_cancelled.
type ReleaseScheduledEvent struct {
	Allocation  string     `json:"allocation_id"`
	Reason      string     `json:"reason"`
	Message     string     `json:"message"`
	Deadline    *time.Time `json:"deadline_at,omitempty"`
	RequestedBy string     `json:"requested_by"`
}

// Eviction is the forced end of an allocation on a draining node: the deadline, the operator who started
// the drain, and the reason.
type Eviction struct {
	At      time.Time
	By, Why string
}

// ScheduleEviction stores the eviction and notifies the tenant of the deadline and the reason, once for
// each change of them.
func (s *Service) ScheduleEviction(ctx context.Context, tx pgx.Tx, a Allocation, l Eviction) error {
	if !a.lives() || a.EvictAt != nil && a.EvictAt.Equal(l.At) && a.EvictFor == l.By && a.EvictReason == l.Why {
		return nil
	}
	if _, err := tx.Exec(ctx, setLeave, a.ID, l.At, l.By, l.Why); err != nil {
		return fmt.Errorf("recording by when %s leaves: %w", a.ID, err)
	}
	return s.pending(ctx, tx, a, SubjectReleaseScheduled, ReleaseScheduledEvent{
		Allocation: a.ID.String(), Reason: ReasonDrain, Message: l.Why, Deadline: &l.At, RequestedBy: l.By,
	})
}

// CancelEviction notifies the tenant that the scheduled release no longer applies.
func (s *Service) CancelEviction(ctx context.Context, tx pgx.Tx, a Allocation) error {
	if a.EvictAt == nil {
		return nil
	}
	if _, err := tx.Exec(ctx, setLeave, a.ID, nil, "", ""); err != nil {
		return fmt.Errorf("recording that %s may stay: %w", a.ID, err)
	}
	if !a.lives() {
		return nil
	}
	return s.pending(ctx, tx, a, SubjectReleaseCancelled, ReleaseScheduledEvent{
		Allocation: a.ID.String(), Reason: ReasonDrain, Message: "its node need not be empty", RequestedBy: a.EvictFor,
	})
}

// ScheduleIdle stores when an idle allocation is released, or nil if it is not, and notifies the tenant.
func (s *Service) ScheduleIdle(ctx context.Context, tx pgx.Tx, a Allocation, at *time.Time, why string) error {
	if _, err := tx.Exec(ctx, setIdle, a.ID, at); err != nil {
		return fmt.Errorf("scheduling the release of %s: %w", a.ID, err)
	}
	subject := SubjectReleaseScheduled
	if at == nil {
		subject = SubjectReleaseCancelled
	}
	return s.pending(ctx, tx, a, subject, ReleaseScheduledEvent{Allocation: a.ID.String(), Reason: ReasonIdle, Message: why, Deadline: at, RequestedBy: policyActor})
}

// Evict releases an allocation that is still on its node at the announced deadline. If the tenant was
// not notified, or was notified of another deadline, Evict only notifies it.
func (s *Service) Evict(ctx context.Context, tx pgx.Tx, a Allocation, l Eviction) error {
	if !a.lives() || a.EvictAt == nil {
		return s.ScheduleEviction(ctx, tx, a, l)
	}
	if s.Clock.Now().Before(l.At) {
		return nil // put off meanwhile
	}
	reason := ReasonDrain
	lost, err := s.Inventory.Silenced(ctx, tx, a.Node)
	if err != nil {
		return err
	}
	if lost {
		reason = ReasonNodeLost
	}
	a.actor = l.By
	_, err = s.ForceRelease(ctx, tx, a, reason, l.Why, identity.Caller{})
	return err
}

// lives reports whether the allocation is on its node and no release was requested.
func (a Allocation) lives() bool {
	return a.State == Requested || a.State == Provisioning || a.State == Active
}

// pending emits an event about an eviction.
func (s *Service) pending(ctx context.Context, tx pgx.Tx, a Allocation, subject string, p ReleaseScheduledEvent) error {
	b := &pgx.Batch{}
	s.queueUnsequenced(b, a, "release-scheduled:", subject, p)
	return send(ctx, tx, b, a)
}

// queueUnsequenced queues an event without a new sequence of the allocation, because its state does not change.
func (s *Service) queueUnsequenced(b *pgx.Batch, a Allocation, aggregate, subject string, payload any) {
	f := s.event(a, subject, payload)
	f.Aggregate = aggregate + a.ID.String()
	f.Sequence = s.Clock.Now().UnixMicro() // each event overtakes the one before
	event.Queue(b, f)
}
