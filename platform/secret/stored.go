package secret

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pki"
)

// Stored reads and writes the private keys in the database. With the rights of a server role it reads the
// keys of this role; only the owner of the schema writes. It opens each key once.
type Stored struct {
	DB pg.Queryer
	// KEK may be nil where no key is opened.
	KEK Wrapper
	// Failures records the keys that do not open. It may be nil.
	Failures *Failures

	mu     sync.Mutex
	opened map[int64][]byte // private keys by the id of their row, which another sealing does not change
}

// Of returns the keys of one purpose.
func (s *Stored) Of(purpose string) pki.Store { return storedKeys{s, purpose} }

type storedKeys struct {
	*Stored

	purpose string
}

// storedRow is an active key of the table.
type storedRow struct {
	ID     int64
	Number int
	Public []byte
	Sealed []byte
	Fresh  bool
}

// storedAt returns where the sealed private key of a purpose and number is stored.
func storedAt(purpose string, number int) envelope.Place {
	return envelope.Place{Table: "signing_keys", Column: "sealed", Row: fmt.Sprintf("%s/%d", purpose, number)}
}

// Read returns the active keys.
func (k storedKeys) Read(ctx context.Context) ([]pki.Stored, error) {
	rows, err := k.DB.Query(ctx, selectStored, k.purpose)
	if err != nil {
		return nil, fmt.Errorf("reading the keys of %s: %w", k.purpose, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[storedRow])
	if err != nil {
		return nil, fmt.Errorf("reading the keys of %s: %w", k.purpose, err)
	}
	keys := make([]pki.Stored, len(list))
	for i, row := range list {
		private, err := k.open(ctx, k.purpose, row)
		if err != nil {
			return nil, fmt.Errorf("opening key %d of %s: %w", row.Number, k.purpose, err)
		}
		keys[i] = pki.Stored{Number: row.Number, Public: row.Public, Private: private, Fresh: row.Fresh}
		if !keys[i].Agrees() {
			// The envelope covers the private key alone, and other roles trust the public part of the row.
			err := envelope.Changed(errors.New("the public part is of another key"))
			k.Failures.Record(ctx, storedAt(k.purpose, row.Number), err)
			return nil, fmt.Errorf("opening key %d of %s: %w", row.Number, k.purpose, err)
		}
	}
	return keys, nil
}

func (s *Stored) open(ctx context.Context, purpose string, row storedRow) ([]byte, error) {
	s.mu.Lock()
	private, known := s.opened[row.ID]
	s.mu.Unlock()
	if known {
		return private, nil
	}
	at := storedAt(purpose, row.Number)
	private, err := s.KEK.Open(ctx, row.Sealed, at)
	if envelope.ReasonOf(err) == envelope.ReasonKey && s.KEK.Refresh(ctx) == nil {
		private, err = s.KEK.Open(ctx, row.Sealed, at) // a rotation has just sealed it
	}
	if err != nil {
		s.Failures.Record(ctx, at, err)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened == nil {
		s.opened = map[int64][]byte{}
	}
	s.opened[row.ID] = private
	return private, nil
}

// Add seals and stores a key.
func (k storedKeys) Add(ctx context.Context, key pki.Stored) error {
	sealed, err := k.KEK.Seal(ctx, key.Private, storedAt(k.purpose, key.Number))
	if err != nil {
		return err
	}
	public := key.Public
	if public == nil {
		public = []byte{}
	}
	_, err = k.DB.Exec(ctx, insertStored, k.purpose, key.Number, public, sealed)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.ConstraintName == "signing_keys_have_one_number" {
		return fmt.Errorf("key %d of %s: %w", key.Number, k.purpose, fs.ErrExist)
	}
	if err != nil {
		return fmt.Errorf("storing key %d of %s: %w", key.Number, k.purpose, err)
	}
	return nil
}

// Remove ends a key. Its public part and its number stay.
func (k storedKeys) Remove(ctx context.Context, number int) error {
	if _, err := k.DB.Exec(ctx, endStored, k.purpose, number); err != nil {
		return fmt.Errorf("ending key %d of %s: %w", number, k.purpose, err)
	}
	return nil
}

// Reseal seals all stored keys with the newest key-encryption key, at most limit in one call, and returns how
// many it has sealed. A call that was interrupted is repeated.
func (s *Stored) Reseal(ctx context.Context, limit int) (n int, err error) {
	header := envelope.Header(s.KEK.Active())
	rows, err := s.DB.Query(ctx, selectForReseal, header, limit)
	if err != nil {
		return 0, fmt.Errorf("reading keys to seal again: %w", err)
	}
	type old struct {
		ID      int64
		Purpose string
		Number  int
		Sealed  []byte
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[old])
	if err != nil {
		return 0, fmt.Errorf("reading keys to seal again: %w", err)
	}
	for _, row := range list {
		at := storedAt(row.Purpose, row.Number)
		private, err := s.KEK.Open(ctx, row.Sealed, at)
		if err != nil {
			s.Failures.Record(ctx, at, err)
			return n, fmt.Errorf("opening key %d of %s: %w", row.Number, row.Purpose, err)
		}
		sealed, err := s.KEK.Seal(ctx, private, at)
		if err != nil {
			return n, err
		}
		if _, err := s.DB.Exec(ctx, resealStored, row.ID, sealed); err != nil {
			return n, fmt.Errorf("sealing key %d of %s again: %w", row.Number, row.Purpose, err)
		}
		n++
	}
	return n, nil
}

// Purposes lists the purposes that have an active key.
func (s *Stored) Purposes(ctx context.Context) ([]string, error) {
	rows, err := s.DB.Query(ctx, selectPurposes)
	if err != nil {
		return nil, fmt.Errorf("reading the purposes of keys: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading the purposes of keys: %w", err)
	}
	return list, nil
}

// PublicParts lists the public parts of all keys of a purpose, ended ones too.
func (s *Stored) PublicParts(ctx context.Context, purpose string) ([][]byte, error) {
	rows, err := s.DB.Query(ctx, selectPublicParts, purpose)
	if err != nil {
		return nil, fmt.Errorf("reading the public keys of %s: %w", purpose, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, fmt.Errorf("reading the public keys of %s: %w", purpose, err)
	}
	return list, nil
}

// Replaced reports whether every server has stopped to seal with the older keys of a purpose.
func (s *Stored) Replaced(ctx context.Context, purpose string) (replaced bool, err error) {
	if err = s.DB.QueryRow(ctx, selectReplaced, purpose).Scan(&replaced); err != nil {
		return false, fmt.Errorf("reading the age of the keys of %s: %w", purpose, err)
	}
	return replaced, nil
}

// Lock serialises everything that creates or ends keys until the transaction ends.
func (s *Stored) Lock(ctx context.Context) error {
	if _, err := s.DB.Exec(ctx, lockStored); err != nil {
		return fmt.Errorf("locking the keys: %w", err)
	}
	return nil
}
