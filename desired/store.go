package desired

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// HintDue is the topic that notifies the loop.
const HintDue = "due"

// Store reads and writes desired objects. Check validates an object against the schema of its kind before Put writes
// it; nil means that the caller has validated it.
type Store struct {
	DB    pg.Pool
	Hints *hint.Bus
	Check func(Object) error
}

// Hint notifies the loop after a commit. A lost hint costs one sweep interval.
func (s *Store) Hint() { s.Hints.Send(HintDue) }

// QueuePut declares an object that the API owns and that must be new, and marks
// it due, in the caller's batch.
func QueuePut(b *pgx.Batch, o Object) {
	b.Queue(insertObject, o.UID, o.Kind, o.Scope, o.Name, object(o.Labels), object(o.Annotations), o.Spec, Hash(o.Spec), o.Source.Owner)
}

// Put writes an API-owned object: a new one, or the next generation of one. The
// owner is compared; a spec that is the same as before writes nothing.
func (s *Store) Put(ctx context.Context, tx pgx.Tx, o Object) (Object, error) {
	if s.Check != nil {
		if err := s.Check(o); err != nil {
			return Object{}, err
		}
	}
	have, err := s.Lock(ctx, tx, o.Kind, o.Scope, o.Name)
	switch {
	case errs.CodeOf(err) == errs.NotFound:
		if err := sole(ctx, tx, o); err != nil {
			return Object{}, err
		}
		if err := upsertAll(ctx, tx, []Object{o}); err != nil {
			return Object{}, err
		}
		return s.Lock(ctx, tx, o.Kind, o.Scope, o.Name)
	case err != nil:
		return Object{}, err
	case have.Source.Owner == OwnerGit:
		return Object{}, errs.New(errs.ManagedByGit, "%s %s is managed in Git; edit %s", o.Kind, o.Name, have.Source).
			With("source", have.Source)
	case have.SpecHash == Hash(o.Spec):
		return have, nil
	}
	if err := sole(ctx, tx, o); err != nil {
		return Object{}, err
	}
	return s.respec(ctx, tx, have, o.Spec)
}

// Respec gives a declared object its next generation and fence.
func (s *Store) Respec(ctx context.Context, tx pgx.Tx, kind Kind, uid ids.Object, spec any) (Object, error) {
	text, err := json.Marshal(spec)
	if err != nil {
		return Object{}, fmt.Errorf("encoding spec of %s %s: %w", kind, uid, err)
	}
	have, err := s.LockUID(ctx, tx, kind, uid)
	if err != nil {
		return Object{}, err
	}
	return s.respec(ctx, tx, have, text)
}

// Tombstone gives an object its last spec: the next generation and fence, and a
// tombstone that stays until what is left of it in the world is gone. Its name is
// free from now on.
func (s *Store) Tombstone(ctx context.Context, tx pgx.Tx, kind Kind, uid ids.Object, spec any) (Object, error) {
	o, err := s.Respec(ctx, tx, kind, uid, spec)
	if err != nil {
		return Object{}, err
	}
	if _, err := tx.Exec(ctx, updateTombstone, uid); err != nil {
		return Object{}, fmt.Errorf("burying %s %s: %w", kind, o.Name, err)
	}
	return o, nil
}

func (s *Store) respec(ctx context.Context, tx pgx.Tx, have Object, spec []byte) (Object, error) {
	row := tx.QueryRow(ctx, updateSpec, have.UID, spec, Hash(spec))
	if err := row.Scan(&have.Generation, &have.Fence, &have.ResourceVersion, &have.UpdatedAt); err != nil {
		return Object{}, fmt.Errorf("changing %s %s: %w", have.Kind, have.Name, err)
	}
	have.Spec, have.SpecHash = spec, Hash(spec)
	return have, nil
}

// Relabel changes the name and the labels of an object. Its spec stays, and so the loop has nothing to do.
func (s *Store) Relabel(ctx context.Context, tx pgx.Tx, kind Kind, uid ids.Object, name string, labels map[string]string) error {
	if labels == nil {
		labels = map[string]string{}
	}
	if _, err := tx.Exec(ctx, relabelObject, kind, uid, name, labels); err != nil {
		return fmt.Errorf("renaming %s %s: %w", kind, uid, err)
	}
	return nil
}

// Drop deletes a tombstone after everything that the object created was released.
func (s *Store) Drop(ctx context.Context, tx pgx.Tx, kind Kind, uid ids.Object) error {
	if _, err := tx.Exec(ctx, dropObject, kind, uid); err != nil {
		return fmt.Errorf("dropping %s %s: %w", kind, uid, err)
	}
	return nil
}

// BumpEpoch raises the epoch, so that the loop reconciles the same generation again.
func (s *Store) BumpEpoch(ctx context.Context, tx pgx.Tx, kind Kind, uid ids.Object, why string) error {
	if _, err := tx.Exec(ctx, raiseEpoch, kind, uid, why); err != nil {
		return fmt.Errorf("reworking %s %s: %w", kind, uid, err)
	}
	return nil
}

// Lock reads one desired object by name and locks it until tx ends.
func (s *Store) Lock(ctx context.Context, tx pgx.Tx, kind Kind, scope, name string) (Object, error) {
	return scanOne(tx.Query(ctx, selectObject+` WHERE kind = $1 AND scope = $2 AND name = $3 AND deleted_at IS NULL FOR UPDATE`, kind, scope, name))
}

// LockUID reads one object, tombstone or not, and locks it until tx ends.
func (s *Store) LockUID(ctx context.Context, tx pgx.Tx, kind Kind, uid ids.Object) (Object, error) {
	return scanOne(tx.Query(ctx, selectObject+` WHERE kind = $1 AND uid = $2 FOR UPDATE`, kind, uid))
}

// Get reads one declared object by name.
func (s *Store) Get(ctx context.Context, kind Kind, scope, name string) (Object, error) {
	return scanOne(s.DB.Query(ctx, selectObject+` WHERE kind = $1 AND scope = $2 AND name = $3 AND deleted_at IS NULL`, kind, scope, name))
}

// List reads the declared objects of a kind by name, after a name.
func (s *Store) List(ctx context.Context, kind Kind, after string, limit int) ([]Object, error) {
	rows, err := s.DB.Query(ctx, selectObject+` WHERE kind = $1 AND name > $2 AND deleted_at IS NULL ORDER BY name, uid LIMIT $3`, kind, after, limit)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind, err)
	}
	list, err := pgx.CollectRows(rows, scanObject)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind, err)
	}
	return list, nil
}

// Policies reads the declared values of these keys at these scopes, whatever the
// objects are named.
func (s *Store) Policies(ctx context.Context, q pg.Queryer, keys, scopes []string) ([]Object, error) {
	rows, err := q.Query(ctx, selectPolicies, keys, scopes)
	if err != nil {
		return nil, fmt.Errorf("reading declared policies: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanObject)
	if err != nil {
		return nil, fmt.Errorf("reading declared policies: %w", err)
	}
	return list, nil
}

func scanOne(rows pgx.Rows, err error) (Object, error) {
	if err != nil {
		return Object{}, fmt.Errorf("reading declaration: %w", err)
	}
	o, err := pgx.CollectExactlyOneRow(rows, scanObject)
	if errors.Is(err, pgx.ErrNoRows) {
		return Object{}, errs.New(errs.NotFound, "the object does not exist")
	}
	if err != nil {
		return Object{}, fmt.Errorf("reading declaration: %w", err)
	}
	return o, nil
}

func orNew(uid ids.Object) ids.Object {
	if uid == (ids.Object{}) {
		return ids.New[ids.Object]()
	}
	return uid
}

func object(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}
