package allocation

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// The subjects about an allocation whose node is to be empty.
const (
	SubjectReleaseScheduled = "provisioning.release_scheduled"
	SubjectReleaseCancelled = "provisioning.release_cancelled"
)

// PendingFact is the payload of provisioning.release_scheduled, and without a deadline
// of provisioning.release_cancelled.
type PendingFact struct {
	Allocation  string     `json:"allocation_id"`
	Reason      string     `json:"reason"`
	Message     string     `json:"message"`
	Deadline    *time.Time `json:"deadline_at,omitempty"`
	RequestedBy string     `json:"requested_by"`
}

// Leave is by when an allocation is to be off its node, whose word that is, and why.
type Leave struct {
	At      time.Time
	By, Why string
}

// LeaveBy tells the tenant by when and why it is released, once for each word.
func (s *Service) LeaveBy(ctx context.Context, tx pgx.Tx, a Allocation, l Leave) error {
	if !a.lives() || a.LeaveAt != nil && a.LeaveAt.Equal(l.At) && a.LeaveFor == l.By && a.LeaveWhy == l.Why {
		return nil
	}
	if _, err := tx.Exec(ctx, setLeave, a.ID, l.At, l.By, l.Why); err != nil {
		return fmt.Errorf("recording by when %s leaves: %w", a.ID, err)
	}
	return s.pending(ctx, tx, a, SubjectReleaseScheduled, PendingFact{
		Allocation: a.ID.String(), Reason: ReasonDrain, Message: l.Why, Deadline: &l.At, RequestedBy: l.By,
	})
}

// Stay tells the tenant that it is not released after all.
func (s *Service) Stay(ctx context.Context, tx pgx.Tx, a Allocation) error {
	if a.LeaveAt == nil {
		return nil
	}
	if _, err := tx.Exec(ctx, setLeave, a.ID, nil, "", ""); err != nil {
		return fmt.Errorf("recording that %s may stay: %w", a.ID, err)
	}
	if !a.lives() {
		return nil
	}
	return s.pending(ctx, tx, a, SubjectReleaseCancelled, PendingFact{
		Allocation: a.ID.String(), Reason: ReasonDrain, Message: "its node need not be empty", RequestedBy: a.LeaveFor,
	})
}

// LeaveDue releases what has not left its node by the deadline that its tenant was
// told. One that was never told, or something else, is told first.
func (s *Service) LeaveDue(ctx context.Context, tx pgx.Tx, a Allocation, l Leave) error {
	if !a.lives() || a.LeaveAt == nil {
		return s.LeaveBy(ctx, tx, a, l)
	}
	if s.Clock.Now().Before(l.At) {
		return nil // put off meanwhile
	}
	b := &pgx.Batch{}
	f := s.fact(a, SubjectForceRelease, ReleasingFact{Allocation: a.ID.String(), Reason: ReasonDrain, RequestedBy: l.By})
	f.Aggregate = "force-release:" + a.ID.String() // the allocation's own sequence stands still until it moves
	event.Queue(b, f)
	if err := send(ctx, tx, b, a); err != nil {
		return err
	}
	_, err := s.release(ctx, tx, a, ReasonDrain, identity.Caller{})
	return err
}

// lives: it stands on its node, and nobody has asked for its end.
func (a Allocation) lives() bool {
	return a.State == Requested || a.State == Provisioning || a.State == Active
}

// pending states a fact beside the allocation's own sequence, which stands still
// until it moves.
func (s *Service) pending(ctx context.Context, tx pgx.Tx, a Allocation, subject string, p PendingFact) error {
	b := &pgx.Batch{}
	f := s.fact(a, subject, p)
	f.Aggregate = "release-scheduled:" + a.ID.String()
	f.Sequence = s.Clock.Now().UnixMicro() // each word overtakes the one before
	event.Queue(b, f)
	return send(ctx, tx, b, a)
}

// pendingRelease is the condition of one that is to leave its node.
func (a Allocation) pendingRelease() Condition {
	whose := "the platform"
	if strings.HasPrefix(a.LeaveFor, "user:") || strings.HasPrefix(a.LeaveFor, "service-account:") {
		whose = "an operator"
	}
	return a.condition("ReleaseScheduled", isTrue, "NodeDrain", fmt.Sprintf("its node is to be empty (%s): %s releases it at %s, unless you do so before",
		a.LeaveWhy, whose, a.LeaveAt.UTC().Format(time.RFC3339)))
}
