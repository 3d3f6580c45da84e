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

// Rekey updates the desired objects of a principal's live allocations whose keys differ from its
// registered keys. Allocations with explicitly named keys lose only the deleted ones.
func (s *Service) Rekey(ctx context.Context, tx pgx.Tx, principal uuid.UUID) error {
	rows, err := tx.Query(ctx, lockOpen, principal)
	if err != nil {
		return fmt.Errorf("locking allocations: %w", err)
	}
	open, err := pgx.CollectRows(rows, pgx.RowTo[ids.Allocation])
	if err != nil || len(open) == 0 {
		return err
	}
	// Read behind the locks: of two that run at once the later one sees all.
	lines, err := keys.AuthorizedKeys(ctx, tx, identity.Caller{User: ids.User{UUID: principal}}, nil)
	if err != nil {
		return err
	}
	for _, id := range open {
		if err := s.rekey(ctx, tx, ids.Object(id), lines); err != nil {
			return fmt.Errorf("changing the keys of %s: %w", id, err)
		}
	}
	return nil
}

// rekey writes the desired object of one allocation with new keys, or nothing if they are equal. It
// locks the object before it reads the keys, so that a concurrent change of the object is not lost.
func (s *Service) rekey(ctx context.Context, tx pgx.Tx, id ids.Object, keys []string) error {
	have, err := s.Desired.LockUID(ctx, tx, desired.KindAllocation, id)
	if err != nil {
		return err
	}
	var spec desired.Allocation
	if err := json.Unmarshal(have.Spec, &spec); err != nil {
		return fmt.Errorf("reading the declaration: %w", err)
	}
	before := slices.Clone(spec.Keys)
	if spec.FollowKeys {
		spec.Keys = keys
	} else {
		spec.Keys = slices.DeleteFunc(spec.Keys, func(k string) bool { return !slices.Contains(keys, k) })
	}
	if slices.Equal(before, spec.Keys) {
		return nil
	}
	_, err = s.Desired.Respec(ctx, tx, desired.KindAllocation, id, spec)
	return err
}
