package revision

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// adoptWithin is the time that a source has to define an object that it may adopt. A pull request is reviewed and merged
// in that time; otherwise the offer is repeated.
const adoptWithin = 24 * time.Hour

// OfferAdoption lets the next revision of a source adopt an object within a day. The source reads its whole tree again,
// because the file that defines the object may be unchanged.
func (s *Store) OfferAdoption(ctx context.Context, tx pgx.Tx, n desired.Name, source string, expected int64) (desired.Object, error) {
	if _, err := s.SourceByName(ctx, tx, source); err != nil {
		return desired.Object{}, err
	}
	o, err := s.lockVersion(ctx, tx, n, expected)
	if err != nil {
		return desired.Object{}, err
	}
	if o.Source.Owner == desired.OwnerGit && o.Source.Name == source {
		return desired.Object{}, errs.New(errs.Conflict, "%s is already managed by %s", n, source)
	}
	if err := invalidateSource(ctx, tx, source); err != nil {
		return desired.Object{}, err
	}
	return s.SetAdoption(ctx, tx, o, source, adoptWithin)
}

// AdoptToAPI moves an object from its source to the API. As long as the files define it, the next revision of the source
// is invalid.
func (s *Store) AdoptToAPI(ctx context.Context, tx pgx.Tx, n desired.Name, expected int64) (desired.Object, error) {
	o, err := s.lockVersion(ctx, tx, n, expected)
	if err != nil {
		return desired.Object{}, err
	}
	if o.Source.Owner == desired.OwnerAPI {
		return desired.Object{}, errs.New(errs.Conflict, "%s is managed by the API already", n)
	}
	if err := invalidateSource(ctx, tx, o.Source.Name); err != nil {
		return desired.Object{}, err
	}
	return s.SetOwnerAPI(ctx, tx, o)
}

func (s *Store) lockVersion(ctx context.Context, tx pgx.Tx, n desired.Name, expected int64) (desired.Object, error) {
	o, err := s.Lock(ctx, tx, n.Kind, n.Scope, n.Name)
	if err != nil {
		return desired.Object{}, err
	}
	return o, o.CheckVersion(expected)
}

// invalidateSource makes the next sync of a source compare its whole tree, even if the tree is unchanged.
func invalidateSource(ctx context.Context, tx pgx.Tx, name string) error {
	if _, err := tx.Exec(ctx, invalidateTree, name); err != nil {
		return fmt.Errorf("invalidating the tree of source %s: %w", name, err)
	}
	return nil
}
