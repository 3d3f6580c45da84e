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

// LockNamed is Named and locks the objects until tx ends.
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

// PutAll writes objects that the API owns, all of them or none. The caller has locked the existing
// ones and compared their owners and versions. Specs are normalised.
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

// Last reads an object by name, or its latest tombstone. Users read the progress of a deletion
// by the same name.
func (s *Store) Last(ctx context.Context, kind Kind, scope, name string) (Object, error) {
	return scanOne(s.DB.Query(ctx, selectLast, kind, scope, name))
}
