package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Topic is hinted at after a commit that set or unset a value.
const Topic = "policies"

// refreshEvery limits the age of a snapshot if hints are lost. A check costs one row by primary key.
const refreshEvery = time.Second

// Client reads and writes policy values. The zero values of Hints and Log will
// not do; wire both.
type Client struct {
	DB    pg.Queryer
	Hints *hint.Bus
	Log   *slog.Logger

	current atomic.Pointer[Snapshot]
	loading sync.Mutex
}

// Snapshot returns the latest values that this process has read. Only the first call queries the
// database; Run refreshes the values in the background.
func (c *Client) Snapshot(ctx context.Context) (Snapshot, error) {
	if s := c.current.Load(); s != nil {
		return *s, nil
	}
	return c.Refresh(ctx)
}

// Latest is Snapshot for those who cannot wait: what is in memory, or the
// defaults before the first read.
func (c *Client) Latest() Snapshot {
	if s := c.current.Load(); s != nil {
		return *s
	}
	return Snapshot{}
}

// For is Snapshot and its For in one.
func (c *Client) For(ctx context.Context, scopes ...Scope) (View, error) {
	s, err := c.Snapshot(ctx)
	return s.For(scopes...), err
}

// BySKU returns a function that reads the text of a key for an SKU.
func (c *Client) BySKU(key TextKey) func(sku string) string {
	return func(sku string) string { return c.Latest().For(In(LevelSKU, sku)).String(key) }
}

// Refresh reads the values again if the revision has changed, and returns them. A test, or a caller that
// must see its own commit, calls it directly.
func (c *Client) Refresh(ctx context.Context) (Snapshot, error) {
	c.loading.Lock() // one reader is enough, and an older answer must not land last
	defer c.loading.Unlock()

	seen := c.current.Load()
	if seen != nil {
		var revision int64
		if err := c.DB.QueryRow(ctx, readRevision).Scan(&revision); err != nil {
			return *seen, fmt.Errorf("reading policy revision: %w", err)
		}
		if revision == seen.Revision {
			return *seen, nil
		}
	}
	s, err := c.load(ctx)
	if err != nil {
		return Snapshot{}, err
	}
	c.current.Store(&s)
	return s, nil
}

// Run refreshes until ctx ends. While the database is away the last values stay.
func (c *Client) Run(ctx context.Context) error {
	hints, end := c.Hints.Listen(Topic)
	defer end()
	ticks := time.NewTicker(refreshEvery)
	defer ticks.Stop()

	for {
		if _, err := c.Refresh(ctx); err != nil && ctx.Err() == nil {
			c.Log.WarnContext(ctx, "policy values could not be refreshed", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-hints:
		case <-ticks.C:
		}
	}
}

// load reads revision and values in one statement, and so in one snapshot.
func (c *Client) load(ctx context.Context) (Snapshot, error) {
	rows, err := c.DB.Query(ctx, readValues)
	if err != nil {
		return Snapshot{}, fmt.Errorf("reading policy values: %w", err)
	}
	s := Snapshot{values: map[setting]any{}, Roles: NewRoleTable(0, map[string][]string{})}
	var key, scope *string
	var raw []byte
	_, err = pgx.ForEachRow(rows, []any{&s.Revision, &key, &scope, &raw}, func() error {
		if key == nil {
			return nil // nothing is set
		}
		if *key == roleKey {
			var operations []string
			err := json.Unmarshal(raw, &operations)
			s.Roles.declared[*scope] = operations
			return err
		}
		var value any
		if err := json.Unmarshal(raw, &value); err != nil {
			return err
		}
		// A newer or older binary with another definition has written this value. The value of the outer
		// scope, or the default, replaces it.
		v, fault := Check(*key, *scope, value)
		if fault != nil {
			c.Log.WarnContext(ctx, "policy value ignored", "key", *key, "scope", *scope, "reason", fault.Message)
			return nil
		}
		s.add(setting{*key, Scope(*scope)}, v)
		return nil
	})
	if err != nil {
		return Snapshot{}, fmt.Errorf("reading policy values: %w", err)
	}
	s.Roles.Revision = s.Revision
	return s, nil
}

// Applied is a value of a Policy object that takes effect.
type Applied struct {
	Key   string
	Scope Scope // as the object names it
	// Subject is the scope with the id of its tenant, project or user. If the scope has a value
	// already, its first subject stays.
	Subject Scope
	Value   any
	Source  string     // git:<path>:<line> or user:<id>
	Object  ids.Object // the Policy object
}

// Set stores one value in the caller's transaction, which then contains the next revision. It removes
// the values that the object has set at another key or scope. A value that is set already changes
// nothing. Send the hint Topic after the commit.
func (c *Client) Set(ctx context.Context, tx pgx.Tx, a Applied) error {
	v, fault := Check(a.Key, string(a.Scope), a.Value)
	if fault != nil {
		return fault.Coded("")
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding policy value: %w", err)
	}
	// A statement of its own: the one that compares must see the values of the previous writer, and not
	// those from before it waited for the lock.
	if _, err := tx.Exec(ctx, lockRevision); err != nil {
		return fmt.Errorf("setting policy %s: %w", a.Key, err)
	}
	if _, err := tx.Exec(ctx, unsetMoved, a.Object.UUID, a.Key, string(a.Scope)); err != nil {
		return fmt.Errorf("removing the former value of policy %s: %w", a.Key, err)
	}
	if _, err := tx.Exec(ctx, setValue, a.Key, string(a.Scope), string(a.Subject), raw, a.Source, a.Object.UUID); err != nil {
		return fmt.Errorf("setting policy %s: %w", a.Key, err)
	}
	return nil
}

// Unset removes one value, so that the value of the outer scope applies. Removing a value that is not
// set changes nothing.
func (c *Client) Unset(ctx context.Context, tx pgx.Tx, key string, scope Scope) error {
	if _, err := tx.Exec(ctx, unsetValue, key, string(scope)); err != nil {
		return fmt.Errorf("unsetting policy %s: %w", key, err)
	}
	return nil
}
