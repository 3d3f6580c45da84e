package revision_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

type bundle struct {
	*revision.Store

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
	return &bundle{&revision.Store{Store: &desired.Store{DB: db, Hints: &hint.Bus{}}}, t, db, t.Context()}
}

func (b *bundle) do(do func(pgx.Tx) error) {
	b.t.Helper()
	if err := pgx.BeginFunc(b.ctx, b.db, do); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) put(o desired.Object) error {
	return pgx.BeginFunc(b.ctx, b.db, func(tx pgx.Tx) error {
		_, err := b.Put(b.ctx, tx, o)
		return err
	})
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

// INV-14: a write to an object of Git is rejected with the file and line to edit. An invalid spec
// is rejected before the first statement.
func TestINV14PutRejected(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.apply(snapshot("c1", at(sku("h100", `{}`), "sku.cue", 12, 5)))
	diff := pgtest.Diff(t, b.db)
	err := b.put(sku("h100", `{"a":1}`))
	var coded *errs.Error
	if !errors.As(err, &coded) || coded.Code != errs.ManagedByGit || !strings.Contains(coded.Message, "sku.cue:12:5") {
		t.Errorf("%v", err)
	}
	b.Check = func(desired.Object) error { return errs.New(errs.SpecInvalid, "no") }
	if err := b.put(sku("x", `{}`)); errs.CodeOf(err) != errs.SpecInvalid {
		t.Error(err)
	}
	if left := diff(); left != "" {
		t.Error(left)
	}
}
