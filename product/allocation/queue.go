package allocation

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/product/storage/accesskey"
)

// A queued request is a row and nothing else: no claim, no desired object, no cost. It counts against
// the caps and the balance, so that it can be placed when it is its turn. The oldest request is served
// first. A request that does not fit lets smaller ones pass, because slots would otherwise stay free
// without a use.

// placed reports whether the allocation has or had a node.
func (a Allocation) placed() bool { return a.Node != ids.Node{} }

// Queued reports whether the allocation waits for capacity.
func (a Allocation) Queued() bool { return a.State == Requested && !a.placed() }

// enqueue is the one transaction of a request that waits.
func (s *Service) enqueue(ctx context.Context, a Allocation, r Request, l Limits) (Allocation, error) {
	if l.QueueWait <= 0 {
		return Allocation{}, errs.New(errs.SKUUnavailable, "no capacity is free, and requests cannot be queued").
			Try("request fewer GPUs or another SKU").With("sku", a.SKU).With("gpus", a.GPUs)
	}
	until := a.CreatedAt.Add(l.QueueWait)
	a.QueueUntil, a.Node = &until, ids.Node{}
	named := make([]uuid.UUID, len(r.SSHKeys))
	for i, k := range r.SSHKeys {
		named[i] = k.UUID
	}
	b := &pgx.Batch{}
	s.Identity.QueueKey(b, r.Key, answer(r.Answer, a))
	identity.QueueLock(b, r.Caller)
	queueCaps(b, a, l)
	queueInsert(b, a, named, r.Caller.Actor())
	s.MountKeys.QueueMounts(b, r.Caller, a.ID, a.Node, a.Mounts)
	s.queueRequestAudit(b, a, r.Caller)
	if err := s.commit(ctx, b, "allocation.request"); err != nil {
		return Allocation{}, err
	}
	s.Hints.Send(event.Topic)
	return a, nil
}

// withdraw ends one that was never placed: there is nothing to clean, and so
// nothing to wait for.
func (s *Service) withdraw(ctx context.Context, tx pgx.Tx, a Allocation) (Allocation, error) {
	a, err := s.move(ctx, tx, a, CleanupProved, "", "")
	if err != nil {
		return Allocation{}, err
	}
	return a, s.queueReleased(ctx, tx, a)
}

// placedAtOnce is the number of queued requests that one pass reads.
const placedAtOnce = 200

// QueueExists reports whether an allocation waits for slots.
func (s *Service) QueueExists(ctx context.Context) (waits bool, err error) {
	if err := s.DB.QueryRow(ctx, queueExists).Scan(&waits); err != nil {
		return false, fmt.Errorf("checking the queue: %w", err)
	}
	return waits, nil
}

// PlaceQueued places queued requests on free slots, and cancels those whose time is over. The function
// also runs in the transaction of each placement.
func (s *Service) PlaceQueued(ctx context.Context, also func(context.Context, pgx.Tx, Allocation) error) (placed int, err error) {
	rows, err := s.DB.Query(ctx, selectQueued, placedAtOnce)
	if err != nil {
		return 0, fmt.Errorf("reading the queue: %w", err)
	}
	waiting, err := pgx.CollectRows(rows, pgx.RowToStructByPos[waiter])
	if err != nil {
		return 0, fmt.Errorf("reading the queue: %w", err)
	}
	full, open := fullness{}, s.Limits(identity.Caller{}).Admission.IsOpen()
	for _, w := range waiting {
		ok, err := s.placeOne(ctx, w, full, open, also)
		if err != nil {
			return placed, err
		}
		if ok {
			placed++
		}
	}
	if placed > 0 {
		failpoint.Hit("allocation.place.after_commit")
		s.Desired.Hint()
	}
	return placed, nil
}

type waiter struct {
	ID          ids.Allocation
	SKU, Region string
	GPUs        int
	Mounts      bool
}

// offer returns what requests of all sizes share.
func (w waiter) offer() slots.Wanted {
	return slots.Wanted{SKU: w.SKU, Region: w.Region, Mounts: w.Mounts}
}

// fullness is the least number of GPUs that could not be placed, by offer. Later requests of at least that size are skipped.
type fullness map[slots.Wanted]int

func (f fullness) isFull(w waiter) bool {
	n, ok := f[w.offer()]
	return ok && w.GPUs >= n
}

// placeOne places one queued request in a transaction of its own, so that a failed claim does not
// undo the placements of others. It locks the request first. Another server that places the same
// request skips it. If the claim fails because another request was faster, the cached free slots are
// read again; if no node fits, full stores the size, and later requests of that size are skipped in
// this pass. While admission is not open, requests only expire.
func (s *Service) placeOne(ctx context.Context, w waiter, full fullness, open bool, also func(context.Context, pgx.Tx, Allocation) error) (placed bool, err error) {
	var chosen slots.Placement
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		a, named, err := lockWaiting(ctx, tx, w.ID)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return nil // placed, released, or in other hands
		case err != nil:
			return fmt.Errorf("locking a waiting request: %w", err)
		case a.QueueUntil != nil && !s.Clock.Now().Before(*a.QueueUntil):
			return s.Exhaust(ctx, tx, a, 0, "no capacity became free in time")
		case !open, full.isFull(w):
			return nil
		}
		lines, err := keys.AuthorizedKeys(ctx, tx, identity.Caller{User: a.User}, named)
		if errs.CodeOf(err) == errs.NotFound {
			return s.Exhaust(ctx, tx, a, 0, "the SSH keys of the request were deleted")
		}
		if err != nil {
			return err
		}
		if chosen, err = s.Inventory.Place(ctx, a.Wanted(), s.Clock.Now()); err != nil {
			return err
		}
		placed = true
		return s.placeQueued(ctx, tx, a, chosen, lines, len(named) == 0, also)
	})
	if len(chosen.IDs) > 0 {
		s.Inventory.Finished(chosen)
	}
	if errs.CodeOf(err) == errs.SKUUnavailable {
		if placed { // others were faster than the claim
			s.Inventory.Refresh(w.offer())
		} else {
			full[w.offer()] = w.GPUs
		}
		return false, nil
	}
	return placed && err == nil, err
}

// placeQueued claims the slots and puts the desired object, in tx. Afterwards the allocation equals one
// that was placed immediately.
func (s *Service) placeQueued(ctx context.Context, tx pgx.Tx, a Allocation, chosen slots.Placement, keys []string, follow bool, also func(context.Context, pgx.Tx, Allocation) error) error {
	a.Node, a.Region = chosen.Node, chosen.Region
	if err := tx.QueryRow(ctx, placeAllocation, a.ID, a.Node, a.Region).Scan(&a.ExpiresAt); err != nil {
		return fmt.Errorf("placing %s: %w", a.ID, err)
	}
	declaration, err := s.declare(a, chosen, keys, follow)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	slots.QueueClaim(b, a.ID, chosen)
	accesskey.QueueMountsPlaced(b, a.ID, a.Node, a.Mounts)
	desired.QueuePut(b, declaration)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	if also != nil {
		if err := also(ctx, tx, a); err != nil {
			return err
		}
	}
	failpoint.Hit("allocation.place.before_commit")
	return nil
}

func lockWaiting(ctx context.Context, tx pgx.Tx, id ids.Allocation) (a Allocation, named []ids.SSHKey, err error) {
	rows, err := tx.Query(ctx, lockQueued, id)
	if err != nil {
		return a, nil, err
	}
	a, err = pgx.CollectExactlyOneRow(rows, func(row pgx.CollectableRow) (Allocation, error) {
		return scanWith(row, &named)
	})
	return a, named, err
}
