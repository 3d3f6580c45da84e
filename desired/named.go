package desired

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// Named reads the declared ones of these objects, by their ids.
func (s *Store) Named(ctx context.Context, q pg.Queryer, names []Name) ([]Object, error) {
	return named(ctx, q, selectNamed, names)
}

// LockNamed is Named, and holds them until tx ends.
func (s *Store) LockNamed(ctx context.Context, tx pgx.Tx, names []Name) ([]Object, error) {
	return named(ctx, tx, selectNamed+` FOR UPDATE`, names)
}

func named(ctx context.Context, q pg.Queryer, sql string, names []Name) ([]Object, error) {
	var kinds, scopes, texts []string
	for _, n := range names {
		kinds, scopes, texts = append(kinds, string(n.Kind)), append(scopes, n.Scope), append(texts, n.Name)
	}
	rows, err := q.Query(ctx, sql, kinds, scopes, texts)
	if err != nil {
		return nil, fmt.Errorf("reading declared objects: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanObject)
	if err != nil {
		return nil, fmt.Errorf("reading declared objects: %w", err)
	}
	return list, nil
}

// PutAll writes objects that the API owns, all of them or none. The caller holds
// those that are there, and has compared their owners and versions; specs are
// normalised.
func (s *Store) PutAll(ctx context.Context, tx pgx.Tx, objects []Object) error {
	if s.Check != nil {
		for _, o := range objects {
			if err := s.Check(o); err != nil {
				return err
			}
		}
	}
	if err := sole(ctx, tx, objects...); err != nil {
		return err
	}
	return upsertAll(ctx, tx, objects)
}

func upsertAll(ctx context.Context, tx pgx.Tx, objects []Object) error {
	text, err := json.Marshal(rowsOf(objects))
	if err != nil {
		return fmt.Errorf("encoding objects: %w", err)
	}
	if _, err := tx.Exec(ctx, upsertOwned, text); err != nil {
		return fmt.Errorf("declaring objects: %w", err)
	}
	return nil
}

// Last reads an object by name as it is declared, or as it was last while what
// is left of it disappears: how that goes is what somebody then asks.
func (s *Store) Last(ctx context.Context, kind Kind, scope, name string) (Object, error) {
	return scanOne(s.DB.Query(ctx, selectLast, kind, scope, name))
}
