package allocation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/product/storage/accesskey"
)

// Why an allocation is released.
const (
	ReasonUser     = "user"
	ReasonTTL      = "ttl"
	ReasonDepleted = "balance_depleted"
	ReasonDrain    = "node_drain"
	ReasonAdmin    = "admin"
	ReasonNodeLost = "node_lost" // the node does not report, and so cannot serve its tenant
	ReasonIdle     = "idle"      // no GPU was used for the time of a policy
	reasonFailed   = "provision_failed"
)

// Release releases an allocation for a caller. Billing ends now. The slots become free once the node has
// proved them clean. Release also retries an allocation in state release_failed.
func (s *Service) Release(ctx context.Context, c identity.Caller, k identity.Key, id ids.Allocation, by func(Allocation) identity.Reply) (Allocation, error) {
	var a Allocation
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) (err error) {
		if a, err = s.Lock(ctx, tx, id); err != nil {
			return err
		}
		if a.Tenant != c.Tenant {
			return unknown() // as for an id that does not exist
		}
		if a, err = s.release(ctx, tx, a, ReasonUser, "", c); err != nil {
			return err
		}
		b := &pgx.Batch{}
		s.Identity.QueueKey(b, k, answer(by, a))
		audit.Queue(b, audit.Entry{Tenant: a.Tenant, By: c.Cause(), Action: "allocation.release", Target: a.URN(s.Naming)})
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return Allocation{}, s.Repeated(ctx, k, err)
	}
	failpoint.Hit("allocation.release.after_commit")
	s.Desired.Hint()
	s.Hints.Send(event.Topic)
	return a, nil
}

// Repeated replaces the error of a concurrent duplicate request: not that the allocation is released
// already, but that the first request is still in progress.
func (s *Service) Repeated(ctx context.Context, k identity.Key, refused error) error {
	_, found, err := s.Identity.Replay(ctx, k)
	switch {
	case err != nil:
		return err
	case found:
		return errs.New(errs.IdempotencyInFlight, "a request with this idempotency key is at work").Try("repeat it in a moment").Because(refused)
	}
	return refused
}

// ForceRelease releases an allocation whose tenant did not request it, and emits the event of a forced
// release. The caller has locked the allocation, and writes the audit row.
func (s *Service) ForceRelease(ctx context.Context, tx pgx.Tx, a Allocation, reason, message string, by identity.Caller) (Allocation, error) {
	if by.Principal() != uuid.Nil {
		a.actor = by.Actor()
	}
	b := &pgx.Batch{}
	f := s.event(a, SubjectForceRelease, ReleasingEvent{Allocation: a.ID.String(), Reason: reason, Message: message, RequestedBy: a.actor})
	f.Aggregate = "force-release:" + a.ID.String() // the allocation's own sequence stays until it moves
	event.Queue(b, f)
	if err := send(ctx, tx, b, a); err != nil {
		return Allocation{}, err
	}
	return s.release(ctx, tx, a, reason, message, by)
}

// release moves the row, closes the interval and declares the tombstone, in tx.
func (s *Service) release(ctx context.Context, tx pgx.Tx, a Allocation, reason, message string, by identity.Caller) (Allocation, error) {
	if by.CorrelationID != "" {
		a.CorrelationID, a.Trace = by.CorrelationID, by.Trace
	}
	if by.Principal() != uuid.Nil {
		a.actor = by.Actor()
	}
	actor := cmp.Or(a.actor, systemActor)
	a, err := s.move(ctx, tx, a, ReleaseRequested, reason, message)
	if err != nil {
		return Allocation{}, err
	}
	if a.placed() {
		if err := s.tombstone(ctx, tx, a, reason); err != nil {
			return Allocation{}, err
		}
	}
	b := &pgx.Batch{}
	metering.QueueClose(b, a.ID, metering.ReleaseRequested, nil)
	slots.QueueDirty(b, a.ID)
	accesskey.QueueMountsReleased(b, a.ID, a.Mounts)
	event.Queue(b, s.event(a, SubjectReleasing, ReleasingEvent{Allocation: a.ID.String(), Reason: reason, RequestedBy: actor}))
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return Allocation{}, fmt.Errorf("releasing %s: %w", a.ID, err)
	}
	if !a.placed() {
		return s.withdraw(ctx, tx, a)
	}
	return a, nil
}

// tombstone turns the desired object into a tombstone with a new fence. The tombstone stays until the
// node has proved that nothing is left.
func (s *Service) tombstone(ctx context.Context, tx pgx.Tx, a Allocation, reason string) error {
	uid := ids.Object{UUID: a.ID.UUID}
	have, err := s.Desired.LockUID(ctx, tx, desired.KindAllocation, uid)
	if err != nil {
		return err
	}
	var spec desired.Allocation
	if err := json.Unmarshal(have.Spec, &spec); err != nil {
		return fmt.Errorf("reading declaration of %s: %w", a.ID, err)
	}
	// A repeated release after a failure increases the fence as well, so that older tasks and reports
	// are void.
	spec.Released, spec.Reason = true, reason
	_, err = s.Desired.Tombstone(ctx, tx, desired.KindAllocation, uid, spec)
	return err
}

// Lock reads one allocation and locks it until tx ends. Everywhere it is locked before its desired
// object, so that transactions cannot deadlock.
func (s *Service) Lock(ctx context.Context, tx pgx.Tx, id ids.Allocation) (Allocation, error) {
	rows, err := tx.Query(ctx, lockAllocation, id)
	if err != nil {
		return Allocation{}, fmt.Errorf("locking allocation %s: %w", id, err)
	}
	a, err := pgx.CollectExactlyOneRow(rows, scan)
	if errors.Is(err, pgx.ErrNoRows) {
		return Allocation{}, unknown()
	}
	return a, err
}

// unknown answers for ids that do not exist and for other tenants' alike.
func unknown() error { return errs.New(errs.NotFound, "no such allocation") }

// systemActor names the control loop as the actor of a transition.
const systemActor = "system:reconcile"

// policyActor names the workers as the actor of a release that a policy of the tenant or the platform requests.
const policyActor = "system:work"

// move is the only way in which a status changes: by the table, by
// compare-and-set, with its row in the history.
func (s *Service) move(ctx context.Context, tx pgx.Tx, a Allocation, e Trigger, reason, message string) (Allocation, error) {
	to, err := Next(a.State, e)
	if err != nil {
		return Allocation{}, err
	}
	tag, err := tx.Exec(ctx, moveAllocation, a.ID, a.Version, a.State, to, reason, message, e, a.CorrelationID, a.Trace, cmp.Or(a.actor, systemActor))
	if err != nil {
		return Allocation{}, fmt.Errorf("moving %s from %s to %s: %w", a.ID, a.State, to, err)
	}
	if err := moved(tag, a); err != nil {
		return Allocation{}, err
	}
	if len(a.Mounts) > 0 && (to == Released || to == Failed) {
		if err := accesskey.EndMounts(ctx, tx, a.ID); err != nil {
			return Allocation{}, err
		}
	}
	rows, err := tx.Query(ctx, lockAllocation, a.ID)
	if err != nil {
		return Allocation{}, fmt.Errorf("reading allocation %s: %w", a.ID, err)
	}
	return pgx.CollectExactlyOneRow(rows, scan)
}

func moved(tag pgconn.CommandTag, a Allocation) error {
	if tag.RowsAffected() == 1 {
		return nil
	}
	return errs.New(errs.Conflict, "allocation %s has changed meanwhile", a.ID)
}

func oneRow(otherwise func() error) func(pgconn.CommandTag) error {
	return func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 1 {
			return nil
		}
		return otherwise()
	}
}
