package desired_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

type bundle struct {
	*desired.Store

	t   *testing.T
	db  pg.Pool
	ctx context.Context
}

// setup works in a transaction that is rolled back.
func setup(t *testing.T) *bundle {
	t.Helper()
	return on(t, pgtest.Tx(t))
}

func on(t *testing.T, db pg.Pool) *bundle {
	t.Helper()
	return &bundle{&desired.Store{DB: db, Hints: &hint.Bus{}}, t, db, t.Context()}
}

func (b *bundle) do(do func(pgx.Tx) error) {
	b.t.Helper()
	if err := pgx.BeginFunc(b.ctx, b.db, do); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) put(o desired.Object) (got desired.Object, err error) {
	err = pgx.BeginFunc(b.ctx, b.db, func(tx pgx.Tx) error {
		got, err = b.Put(b.ctx, tx, o)
		return err
	})
	return got, err
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.db.Exec(b.ctx, sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) unmark() { b.exec(`DELETE FROM reconcile_due`) }

// due is the marks, as "kind reason", and whether they are due already.
func (b *bundle) due() string {
	b.t.Helper()
	rows, err := b.db.Query(b.ctx, `SELECT kind || ' ' || reason || CASE WHEN due_at <= now() THEN '' ELSE ' later' END FROM reconcile_due ORDER BY 1`)
	if err != nil {
		b.t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Join(list, ", ")
}

func sku(name, spec string) desired.Object {
	return desired.Object{Kind: desired.KindSKU, Name: name, Spec: []byte(spec)}
}

// A spec raises generation and fence and marks the object; the same spec again
// writes nothing.
func TestPutGenerations(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		spec       string
		generation int64
		due        string
	}{{`{"a":1}`, 1, "SKU declared"}, {`{"a":1}`, 1, ""}, {`{"a":2}`, 2, "SKU changed"}, {`{"a":1}`, 3, "SKU changed"}} {
		b.unmark()
		diff := pgtest.Diff(t, b.db)
		o, err := b.put(sku("h100", c.spec))
		if err != nil {
			t.Fatal(err)
		}
		if o.Generation != c.generation || o.Fence != c.generation || o.SpecHash != desired.Hash([]byte(c.spec)) || b.due() != c.due {
			t.Errorf("%s: %+v, due %q", c.spec, o, b.due())
		}
		if c.due == "" && diff() != "" {
			t.Errorf("the same spec again wrote\n%s", diff())
		}
		if got, err := b.Get(b.ctx, desired.KindSKU, "", "h100"); err != nil || got.Generation != o.Generation || got.ResourceVersion != o.ResourceVersion {
			t.Errorf("read %+v, wrote %+v, %v", got, o, err)
		}
	}
}

// The earlier time wins, in any sequence of marks.
func TestMarkEarlierWins(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := uuid.New()
	for _, c := range []struct{ in, reason, want string }{
		{"1 hour", "late", "Node late later"}, {"2 hours", "later", "Node late later"}, {"-1 s", "now", "Node now"}, {"1 minute", "late again", "Node now"},
	} {
		b.exec(`SELECT mark_due('Node', $1, now() + $2::text::interval, $3)`, id, c.in, c.reason)
		if got := b.due(); got != c.want {
			t.Errorf("after %s: %s", c.reason, got)
		}
	}
}

// The fence of a tombstone rises further, and its name is free for another object. The row exists
// until Drop.
func TestTombstone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o := desired.Object{Kind: desired.KindAllocation, Scope: "p", Name: "train", UID: ids.New[ids.Object](), Spec: []byte(`{"released": false}`), Source: desired.Source{Owner: desired.OwnerAPI}}
	batch := &pgx.Batch{}
	desired.QueuePut(batch, o)
	if err := b.db.SendBatch(b.ctx, batch).Close(); err != nil {
		t.Fatal(err)
	}
	var buried desired.Object
	for fence := int64(2); fence < 4; fence++ {
		b.unmark()
		b.do(func(tx pgx.Tx) (err error) {
			buried, err = b.Tombstone(b.ctx, tx, o.Kind, o.UID, map[string]any{"released": true})
			return err
		})
		if buried.Fence != fence || buried.Generation != fence || b.due() != "Allocation changed" {
			t.Errorf("%+v, due %s", buried, b.due())
		}
	}
	successor, err := b.put(desired.Object{Kind: o.Kind, Scope: o.Scope, Name: o.Name, Spec: []byte(`{}`)})
	if err != nil || successor.UID == o.UID {
		t.Errorf("the successor: %+v, %v", successor, err)
	}
	b.do(func(tx pgx.Tx) error {
		got, err := b.LockUID(b.ctx, tx, o.Kind, o.UID)
		if got.DeletedAt == nil {
			t.Error("it is no tombstone")
		}
		return errors.Join(err, b.Drop(b.ctx, tx, o.Kind, o.UID))
	})
	b.do(func(tx pgx.Tx) error {
		if _, err := b.LockUID(b.ctx, tx, o.Kind, o.UID); errs.CodeOf(err) != errs.NotFound {
			t.Errorf("dropped, and read: %v", err)
		}
		return nil
	})
}

// Rework raises only the epoch: the same generation is reconciled again.
func TestBumpEpoch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	o, err := b.put(sku("h100", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	b.unmark()
	b.do(func(tx pgx.Tx) error { return b.BumpEpoch(b.ctx, tx, o.Kind, o.UID, "an operator requests it") })
	got, err := b.Get(b.ctx, o.Kind, "", o.Name)
	if err != nil || got.Epoch != 1 || got.Generation != 1 || got.Fence != 1 || got.ResourceVersion != o.ResourceVersion+1 || b.due() != "SKU an operator requests it" {
		t.Errorf("%+v, due %s, %v", got, b.due(), err)
	}
}

// The sweep's slices contain every key once, tombstones included, for any slice size.
func TestSliceWalksAll(t *testing.T) {
	t.Parallel()
	b := on(t, pgtest.Clone(t))
	var want []uuid.UUID
	for i := range 23 {
		o, err := b.put(sku(fmt.Sprintf("s%d", i), `{}`))
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, o.UID.UUID)
	}
	b.do(func(tx pgx.Tx) error {
		_, err := b.Tombstone(b.ctx, tx, desired.KindSKU, ids.Object{UUID: want[3]}, 1)
		return err
	})
	for _, size := range []int{1, 5, 23, 100} {
		var got []uuid.UUID
		for after := uuid.Nil; ; {
			keys, err := b.Slice(b.ctx, b.db, after, size)
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range keys {
				got, after = append(got, k.UID), k.UID
			}
			if len(keys) < size {
				break
			}
		}
		slices.SortFunc(got, func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
		if !slices.Equal(got, want) { // ids sort by time
			t.Errorf("slices of %d walk %d keys", size, len(got))
		}
	}
	b.exec(`ANALYZE desired_objects`)
	if n, err := b.Roughly(b.ctx, b.db); err != nil || n != 23 {
		t.Errorf("about %d, %v", n, err)
	}
	list, err := b.List(b.ctx, desired.KindSKU, "s5", 100)
	if err != nil || len(list) != 4 || list[0].Name != "s6" {
		t.Errorf("after s5: %v, %v", list, err)
	}
}
