package desired

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// PutVersion writes an object that the API owns, with its labels and annotations:
// a new one, or the next of the version that was read (0: of any). What is the same
// as before writes nothing.
func (s *Store) PutVersion(ctx context.Context, tx pgx.Tx, o Object, expected int64) (Object, error) {
	have, err := s.Lock(ctx, tx, o.Kind, o.Scope, o.Name)
	switch {
	case errs.CodeOf(err) == errs.NotFound && expected > 0:
		return Object{}, errs.New(errs.VersionMismatch, "%s %s does not exist", o.Kind, o.Name)
	case errs.CodeOf(err) == errs.NotFound:
		return s.Put(ctx, tx, o)
	case err != nil:
		return Object{}, err
	}
	if err := have.writable(expected); err != nil {
		return Object{}, err
	}
	put, err := s.Put(ctx, tx, o)
	if err != nil || maps.Equal(have.Labels, object(o.Labels)) && maps.Equal(have.Annotations, object(o.Annotations)) {
		return put, err
	}
	put.Labels, put.Annotations = object(o.Labels), object(o.Annotations)
	if err := tx.QueryRow(ctx, updateObject, put.UID, put.Labels, put.Annotations).Scan(&put.ResourceVersion, &put.UpdatedAt); err != nil {
		return Object{}, fmt.Errorf("changing %s %s: %w", o.Kind, o.Name, err)
	}
	return put, nil
}

// writable: the API owns it, and it is as the writer read it.
func (o Object) writable(expected int64) error {
	if o.Source.Owner == OwnerGit {
		return errs.New(errs.ManagedByGit, "%s %s is managed in Git; edit %s", o.Kind, o.Name, o.Source).With("source", o.Source)
	}
	return o.CheckVersion(expected)
}

// CheckVersion returns version_mismatch if the caller has read another version of the object. Zero matches every
// version.
func (o Object) CheckVersion(expected int64) error {
	if expected != 0 && expected != o.ResourceVersion {
		return errs.New(errs.VersionMismatch, "%s %s is at version %d", o.Kind, o.Name, o.ResourceVersion).With("version", o.ResourceVersion)
	}
	return nil
}

// Delete turns an object that the API owns into a tombstone. The loop then releases what the object
// created.
func (s *Store) Delete(ctx context.Context, tx pgx.Tx, n Name, expected int64) (Object, error) {
	o, err := s.Lock(ctx, tx, n.Kind, n.Scope, n.Name)
	if err != nil {
		return Object{}, err
	}
	if err := o.writable(expected); err != nil {
		return Object{}, err
	}
	if _, err := tx.Exec(ctx, tombstoneObjects, []uuid.UUID{o.UID.UUID}, "removed"); err != nil {
		return Object{}, fmt.Errorf("removing %s: %w", n, err)
	}
	return s.LockUID(ctx, tx, o.Kind, o.UID)
}

// SetAdoption lets a source adopt an object until the offer ends. The caller has locked the object.
func (s *Store) SetAdoption(ctx context.Context, tx pgx.Tx, o Object, source string, within time.Duration) (Object, error) {
	return s.touch(ctx, tx, o, offerObject, source, within.String())
}

// SetOwnerAPI moves an object to the API. The caller has locked the object.
func (s *Store) SetOwnerAPI(ctx context.Context, tx pgx.Tx, o Object) (Object, error) {
	return s.touch(ctx, tx, o, takeObject)
}

func (s *Store) touch(ctx context.Context, tx pgx.Tx, o Object, sql string, args ...any) (Object, error) {
	if _, err := tx.Exec(ctx, sql, append([]any{o.UID}, args...)...); err != nil {
		return Object{}, fmt.Errorf("changing %s: %w", o.Key(), err)
	}
	return s.LockUID(ctx, tx, o.Kind, o.UID)
}

// Export reads objects that files can contain, sorted as they are applied. Without kinds it returns all of
// them, and without an owner those of every owner.
func (s *Store) Export(ctx context.Context, kinds []Kind, owner Owner, source string) ([]Object, error) {
	if len(kinds) == 0 {
		kinds = slices.DeleteFunc(Kinds(), func(k Kind) bool { return k == KindAllocation })
	}
	rows, err := s.DB.Query(ctx, exportObjects, kinds, owner, source)
	if err != nil {
		return nil, fmt.Errorf("exporting declarations: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanObject)
	if err != nil {
		return nil, fmt.Errorf("exporting declarations: %w", err)
	}
	return list, nil
}
