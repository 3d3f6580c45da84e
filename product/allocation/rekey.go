package allocation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
)

// open is an allocation that a principal may have a way into.
type open struct {
	ID     ids.Allocation
	Tenant ids.Tenant
	Own    bool // the principal has requested it
}

// Rekey updates the desired objects of a principal's live allocations whose keys differ from its
// registered keys. Allocations with explicitly named keys lose only the deleted ones. A principal without
// access, because it is disabled or has left the tenant, loses all keys, and its login certificates are
// revoked, also those of other users' allocations.
func (s *Service) Rekey(ctx context.Context, tx pgx.Tx, principal uuid.UUID) error {
	rows, err := tx.Query(ctx, lockOpen, principal)
	if err != nil {
		return fmt.Errorf("locking allocations: %w", err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[open])
	if err != nil || len(all) == 0 {
		return err
	}
	// Read behind the locks: of two that run at once the later one sees all.
	lines, err := keys.AuthorizedKeys(ctx, tx, identity.Caller{User: ids.User{UUID: principal}}, nil)
	if err != nil {
		return err
	}
	barred, revoked, err := s.bar(ctx, tx, principal, all)
	if err != nil {
		return err
	}
	for _, one := range all {
		left := lines
		if barred[one.Tenant] {
			left = []string{}
		}
		if err := s.rekey(ctx, tx, one, left, revoked[one.ID]); err != nil {
			return fmt.Errorf("changing the keys of %s: %w", one.ID, err)
		}
	}
	return nil
}

// bar returns the tenants in which the principal has no access any more, and the allocations for which it
// has revoked certificates.
func (s *Service) bar(ctx context.Context, tx pgx.Tx, principal uuid.UUID, all []open) (map[ids.Tenant]bool, map[ids.Allocation]bool, error) {
	tenants := make([]ids.Tenant, len(all))
	for i, one := range all {
		tenants[i] = one.Tenant
	}
	barred, err := identity.Barred(ctx, tx, principal, tenants)
	if err != nil || len(barred) == 0 {
		return nil, nil, err
	}
	var from []ids.Allocation
	for _, one := range all {
		if barred[one.Tenant] {
			from = append(from, one.ID)
		}
	}
	revoked, err := s.revoke(ctx, tx, principal, from)
	return barred, revoked, err
}

// rekey writes the desired object of one allocation with new keys, or nothing if they are equal and no
// certificate was revoked. Of another user's allocation the keys stay. It locks the object before it reads
// the keys, so that a concurrent change of the object is not lost.
func (s *Service) rekey(ctx context.Context, tx pgx.Tx, of open, keys []string, revoked bool) error {
	id := ids.Object(of.ID)
	have, err := s.Desired.LockUID(ctx, tx, desired.KindAllocation, id)
	if err != nil {
		return err
	}
	var spec desired.Allocation
	if err := json.Unmarshal(have.Spec, &spec); err != nil {
		return fmt.Errorf("reading the declaration: %w", err)
	}
	before := slices.Clone(spec.Keys)
	switch {
	case !of.Own:
	case spec.FollowKeys:
		spec.Keys = keys
	default:
		spec.Keys = slices.DeleteFunc(spec.Keys, func(k string) bool { return !slices.Contains(keys, k) })
	}
	if slices.Equal(before, spec.Keys) && !revoked {
		return nil
	}
	_, err = s.Desired.Respec(ctx, tx, desired.KindAllocation, id, spec)
	return err
}
