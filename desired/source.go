package desired

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// OfSource reads the objects with these names, of every owner and with tombstones. With whole it also reads all other
// objects of the source. With lock it locks them until the transaction ends.
func OfSource(ctx context.Context, q pg.Queryer, source string, names []string, whole, lock bool) ([]Object, error) {
	sql := selectSource
	if lock {
		sql = selectSourceLocked
	}
	rows, err := q.Query(ctx, sql, source, names, whole)
	if err != nil {
		return nil, fmt.Errorf("reading objects of %s: %w", source, err)
	}
	list, err := pgx.CollectRows(rows, scanObject)
	if err != nil {
		return nil, fmt.Errorf("reading objects of %s: %w", source, err)
	}
	return list, nil
}

// PutOfSource writes objects of a Git source and marks them due. The caller has locked and compared them.
func PutOfSource(ctx context.Context, tx pgx.Tx, from Source, objects []Object) error {
	text, err := json.Marshal(rowsOf(objects))
	if err != nil {
		return fmt.Errorf("encoding objects: %w", err)
	}
	if _, err := tx.Exec(ctx, upsertSource, text, from.Repository, from.Commit, from.Name); err != nil {
		return fmt.Errorf("writing objects: %w", err)
	}
	return nil
}

// DeleteAll turns objects into tombstones and marks them due.
func DeleteAll(ctx context.Context, tx pgx.Tx, objects []Object, reason string) error {
	uids := make([]uuid.UUID, len(objects))
	for i, o := range objects {
		uids[i] = o.UID.UUID
	}
	if _, err := tx.Exec(ctx, tombstoneObjects, uids, reason); err != nil {
		return fmt.Errorf("deleting objects: %w", err)
	}
	return nil
}

// QueueRename gives the objects of a source that was known by its repository the name of the source.
func QueueRename(b *pgx.Batch, name, repository string) { b.Queue(renameObjects, name, repository) }

// row is an object as upsertSource and upsertOwned receive it.
type row struct {
	UID         uuid.UUID         `json:"uid"`
	Kind        Kind              `json:"kind"`
	Scope       string            `json:"scope"`
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	Spec        json.RawMessage   `json:"spec"`
	SpecHash    string            `json:"spec_hash"`
	Path        string            `json:"path"`
	Line        int               `json:"line"`
	Col         int               `json:"col"`
}

func rowsOf(objects []Object) []row {
	rows := make([]row, 0, len(objects)) // never null: a revision may only remove objects
	for _, o := range objects {
		rows = append(rows, row{
			orNew(o.UID).UUID, o.Kind, o.Scope, o.Name, object(o.Labels), object(o.Annotations), o.Spec, Hash(o.Spec),
			o.Source.Path, o.Source.Line, o.Source.Column,
		})
	}
	return rows
}
