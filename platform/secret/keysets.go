package secret

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/protocol"
)

// The kinds of stored sets of keys.
const (
	setControl  = "control"
	setReleases = "releases"
)

// KeySets publishes the signed sets of keys that nodes trust. It reads them from the database and cannot
// make one.
type KeySets struct {
	DB pg.Queryer

	mu       sync.RWMutex
	current  protocol.KeySet
	sets     []protocol.Signed
	releases []protocol.Signed
	release  protocol.ReleaseKeySet
}

// OpenKeySets reads the sets. Without one of the control plane no node could trust a task.
func OpenKeySets(ctx context.Context, db pg.Queryer) (*KeySets, error) {
	k := &KeySets{DB: db}
	if err := k.Refresh(ctx); err != nil {
		return nil, err
	}
	if len(k.sets) == 0 {
		return nil, errs.New(errs.Unavailable, "no set of keys for nodes is published").Try("start a server with the role work, which signs the first one")
	}
	return k, nil
}

// Refresh reads the sets again.
func (k *KeySets) Refresh(ctx context.Context) error {
	rows, err := k.DB.Query(ctx, selectKeySets)
	if err != nil {
		return fmt.Errorf("reading sets of keys: %w", err)
	}
	var kind string
	var s protocol.Signed
	lists := map[string][]protocol.Signed{}
	if _, err := pgx.ForEachRow(rows, []any{&kind, &s.Kid, &s.Body, &s.Signature}, func() error {
		lists[kind] = append(lists[kind], s)
		s = protocol.Signed{}
		return nil
	}); err != nil {
		return fmt.Errorf("reading sets of keys: %w", err)
	}
	return k.replace(lists[setControl], lists[setReleases])
}

// replace checks the newest sets before it replaces both lists under one lock, so that a reader never gets new keys of
// the control plane next to old release keys.
func (k *KeySets) replace(sets, releases []protocol.Signed) (err error) {
	var current protocol.KeySet
	if n := len(sets); n > 0 {
		if current, err = protocol.FirstKeySet(sets[n-1]); err != nil {
			return fmt.Errorf("reading the newest set of keys: %w", err)
		}
	}
	var release protocol.ReleaseKeySet
	if n := len(releases); n > 0 {
		if release, err = protocol.FirstReleaseKeySet(releases[n-1]); err != nil {
			return fmt.Errorf("reading the newest set of release keys: %w", err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.current, k.sets, k.release, k.releases = current, sets, release, releases
	return nil
}

// Control returns the present set of keys of the control plane, and the last signed ones, oldest first.
func (k *KeySets) Control() (protocol.KeySet, []protocol.Signed) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.current, k.sets
}

// Releases returns the present set of release keys, and the last signed ones, oldest first.
func (k *KeySets) Releases() (protocol.ReleaseKeySet, []protocol.Signed) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.release, k.releases
}

// keySetSigner signs a set of keys.
type keySetSigner interface {
	Sign(ctx context.Context, kid string, body []byte) (signature []byte, err error)
}

// SignKeySet signs keys as the next set with the task key kid, which is one of the set, and stores it in the
// transaction of the rotation. The key that signs is one that nodes trust already, or at the end of a
// rotation the one that they have received at its begin.
func SignKeySet(ctx context.Context, tx pgx.Tx, by keySetSigner, kid string, keys protocol.KeySet, now time.Time) error {
	set := keys
	set.V, set.Kid, set.IssuedAt = protocol.Version, kid, now
	if err := tx.QueryRow(ctx, nextKeySet).Scan(&set.Sequence); err != nil {
		return fmt.Errorf("numbering a set of keys: %w", err)
	}
	body, err := set.Canonical()
	if err != nil {
		return err
	}
	signature, err := by.Sign(ctx, kid, body)
	if err != nil {
		return fmt.Errorf("signing a set of keys: %w", err)
	}
	signed := protocol.Signed{Kid: kid, Body: body, Signature: signature}
	if _, err := protocol.FirstKeySet(signed); err != nil {
		return fmt.Errorf("signing a set of keys: %w", err)
	}
	if _, err := tx.Exec(ctx, insertKeySet, setControl, set.Sequence, kid, body, signature); err != nil {
		return fmt.Errorf("storing a set of keys: %w", err)
	}
	return nil
}

// TrustReleaseKeys stores a set of release keys that was signed elsewhere, with an audit row. The first one
// counts as it is. Each further one has the signature of a release key of the one before, as for nodes. The
// same set again changes nothing.
func TrustReleaseKeys(ctx context.Context, db pg.DB, signed protocol.Signed, by audit.By, target string) (set protocol.ReleaseKeySet, err error) {
	if set, err = protocol.FirstReleaseKeySet(signed); err != nil {
		return set, errs.New(errs.SignatureInvalid, "this is not a signed set of release keys").Because(err).With("reason", err.Error())
	}
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockKeySets); err != nil {
			return fmt.Errorf("locking the sets of keys: %w", err)
		}
		var before protocol.Signed
		var sequence int64
		row := tx.QueryRow(ctx, selectNewestReleases)
		switch err := row.Scan(&sequence, &before.Kid, &before.Body, &before.Signature); {
		case err == nil:
			if sequence == set.Sequence && string(before.Body) == string(signed.Body) {
				return nil
			}
			if err := follows(before, sequence, signed, set); err != nil {
				return err
			}
		case err != pgx.ErrNoRows: //nolint:errorlint // Scan returns it as it is
			return fmt.Errorf("reading release keys: %w", err)
		}
		b := &pgx.Batch{}
		b.Queue(insertKeySet, setReleases, set.Sequence, signed.Kid, signed.Body, signed.Signature)
		audit.Queue(b, audit.Entry{By: by, Action: "release_keys.trust", Target: target, After: map[string]any{"sequence": set.Sequence, "kid": set.Kid, "number": len(set.Keys)}})
		return tx.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return set, fmt.Errorf("trusting release keys: %w", err)
	}
	return set, nil
}

func follows(before protocol.Signed, sequence int64, signed protocol.Signed, set protocol.ReleaseKeySet) error {
	old, err := protocol.FirstReleaseKeySet(before)
	if err != nil {
		return fmt.Errorf("reading release keys: %w", err)
	}
	if _, err := protocol.OpenReleaseKeySet(signed, old.Keys); err != nil {
		return errs.New(errs.SignatureInvalid, "no trusted release key has signed these release keys").
			Try("sign them with the key before: gpuaas agent keys begin, then finish").Because(err)
	}
	if set.Sequence <= sequence {
		return errs.New(errs.Conflict, "release keys %d are trusted; these are number %d", sequence, set.Sequence)
	}
	return nil
}
