package manage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// Patch contains the fields that a tenant changes of a live allocation. Nil leaves a field unchanged.
type Patch struct {
	Name   *string
	Labels map[string]string
	TTL    time.Duration // from now; zero leaves the end unchanged
}

// Update changes the name, the labels or the end of a live allocation, with its desired object. Version zero
// is any.
func (s *Service) Update(ctx context.Context, ch identity.Change[allocation.Allocation], id ids.Allocation, version int64, p Patch) (allocation.Allocation, error) {
	limits := s.Limits(ch.Caller)
	if limits.MaxTTL > 0 && p.TTL > limits.MaxTTL {
		return allocation.Allocation{}, errs.Invalid("ttl_seconds", "must be between 1 and %d", int64(limits.MaxTTL/time.Second))
	}
	return s.change(ctx, ch, id, "allocation.update", func(tx pgx.Tx, a allocation.Allocation) (allocation.Allocation, any, error) {
		switch {
		case a.Tenant != ch.Caller.Tenant:
			return a, nil, errs.New(errs.NotFound, "no such allocation")
		case a.State != allocation.Requested && a.State != allocation.Provisioning && a.State != allocation.Active:
			return a, nil, errs.New(errs.AllocationFinal, "the allocation is %s and cannot be updated", a.State)
		case version != 0 && version != a.Version:
			return a, nil, errs.New(errs.VersionMismatch, "the allocation has changed since version %d", version).At("If-Match").Try("read it again")
		}
		after := s.patched(&a, p)
		if err := tx.QueryRow(ctx, updateAllocation, a.ID, a.Version, a.Name, a.Labels, a.ExpiresAt, a.State, ch.Caller.Actor()).Scan(&a.Version, &a.UpdatedAt); err != nil {
			return a, nil, nameConflict(a, err)
		}
		return a, after, s.redeclare(ctx, tx, a, p)
	})
}

// patched applies p to a and returns what changed, for the audit row.
func (s *Service) patched(a *allocation.Allocation, p Patch) map[string]any {
	after := map[string]any{}
	if p.Name != nil && *p.Name != a.Name {
		a.Name = *p.Name
		after["name"] = a.Name
	}
	if p.Labels != nil && !maps.Equal(p.Labels, a.Labels) {
		a.Labels = p.Labels
		after["labels"] = a.Labels
	}
	if p.TTL > 0 {
		begin := s.Clock.Now()
		if a.Queued() { // placement adds the time in the queue
			begin = a.CreatedAt
		}
		end := begin.Add(p.TTL).Truncate(time.Microsecond)
		a.ExpiresAt = &end
		after["expires_at"] = end
	}
	return after
}

// redeclare writes the desired object of an allocation that has one. A queued allocation has none.
func (s *Service) redeclare(ctx context.Context, tx pgx.Tx, a allocation.Allocation, p Patch) error {
	if a.Queued() {
		return nil
	}
	uid := ids.Object(a.ID)
	if err := s.Desired.Relabel(ctx, tx, desired.KindAllocation, uid, a.Name, a.Labels); err != nil || p.TTL == 0 {
		return err
	}
	have, err := s.Desired.LockUID(ctx, tx, desired.KindAllocation, uid)
	if err != nil {
		return err
	}
	var spec desired.Allocation
	if err := json.Unmarshal(have.Spec, &spec); err != nil {
		return fmt.Errorf("reading the desired object of %s: %w", a.ID, err)
	}
	spec.ExpireAt = a.ExpiresAt
	_, err = s.Desired.Respec(ctx, tx, desired.KindAllocation, uid, spec)
	return err
}

// nameConflict translates the violation of the index of names.
func nameConflict(a allocation.Allocation, err error) error {
	var broken *pgconn.PgError
	if errors.As(err, &broken) && broken.ConstraintName == "allocations_one_name" {
		return errs.New(errs.AlreadyExists, "the project already has an allocation named %q", a.Name).At("name").Try("choose another name, or release that one")
	}
	return fmt.Errorf("updating allocation %s: %w", a.ID, err)
}

// An update is a row of the history, so that the history stays the list of all versions.
const updateAllocation = `
	WITH put AS (
		UPDATE allocations SET name = $3, labels = coalesce($4, '{}'::jsonb), expires_at = $5, updated_at = now(), version = version + 1 WHERE id = $1 AND version = $2
		RETURNING id, version
	)
	INSERT INTO allocation_transitions (allocation_id, version, trigger, from_status, to_status, actor)
	SELECT id, version, 'updated', $6, $6, $7 FROM put RETURNING version, at`
