package change_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// TestMain also runs the child processes that validate files.
func TestMain(m *testing.M) {
	validate.Child()
	os.Exit(m.Run())
}

// bundle contains the service with the rights of the API's database role. The test provides the
// data about nodes and tenants.
type bundle struct {
	*change.Service

	t     *testing.T
	db    *pgxpool.Pool // without limits, for what others do
	ctx   context.Context
	ada   identity.Caller // of the platform, as all here
	bob   identity.Caller
	rules preview.Rules

	mu     sync.Mutex
	inputs preview.Inputs
}

// Inputs returns the data that the test has set. Every scope of a policy exists.
func (b *bundle) Inputs(_ context.Context, _ pg.Queryer, t preview.Touched) (preview.Inputs, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.inputs
	f.Subjects = map[policies.Scope]policies.Scope{}
	for _, scope := range t.Scopes {
		f.Subjects[scope] = scope
	}
	return f, nil
}

func (b *bundle) setInputs(f preview.Inputs) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inputs = f
}

func person(n byte, email string) identity.Caller {
	return identity.Caller{User: ids.User{UUID: uuid.UUID{15: n}}, Email: email, Role: "admin", CorrelationID: "corr"}
}

func setup(t *testing.T) *bundle {
	t.Helper()
	db := pgtest.Clone(t)
	b := &bundle{t: t, db: db, ada: person(1, "ada@example.com"), bob: person(2, "bob@example.com")}
	b.rules = preview.Rules{PruneObjects: 5, PrunePercent: 5, Requires: []string{preview.RequiresApproved}, MassPercent: 5, MassMinimum: 2}
	checker, err := validate.New()
	if err != nil {
		t.Fatal(err)
	}
	b.Service = b.as(pgtest.Scoped(t, db), checker.Check)
	b.Normal = checker.Object
	b.ctx = pg.WithScope(t.Context(), b.ada.Scope(true))
	return b
}

func (b *bundle) as(db pg.Pool, check func(desired.Object) error) *change.Service {
	hints := &hint.Bus{}
	return &change.Service{
		Roles: func() policies.RoleTable { return policies.RoleTable{} },
		DB:    db, Desired: &revision.Store{Store: &desired.Store{DB: db, Hints: hints, Check: check}}, Identity: &identity.Service{DB: db}, Gather: b.Inputs,
		Rules: func() preview.Rules { return b.rules }, Validate: validate.Run, Naming: ids.DefaultNaming, Hints: hints, Clock: clock.Clock{},
	}
}

func by[T any](c identity.Caller) identity.Change[T] { return identity.Change[T]{Caller: c} }

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.db.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) text(sql string) (text string) {
	b.t.Helper()
	if err := b.db.QueryRow(b.t.Context(), sql).Scan(&text); err != nil {
		b.t.Fatal(err)
	}
	return text
}

// audited returns the audit rows, oldest first.
func (b *bundle) audited() string {
	b.t.Helper()
	return b.text(`SELECT coalesce(string_agg(action, ', ' ORDER BY at, id), '') FROM audit_logs`)
}

// events returns the events, oldest first. It validates each payload against the contract.
func (b *bundle) events() string {
	b.t.Helper()
	rows, err := b.db.Query(b.t.Context(), `SELECT subject, payload FROM outbox_events WHERE stream = 'FLEET'`)
	if err != nil {
		b.t.Fatal(err)
	}
	var subject string
	var payload []byte
	if _, err := pgx.ForEachRow(rows, []any{&subject, &payload}, func() error { return asyncapi.Validate(subject, payload) }); err != nil {
		b.t.Error(err)
	}
	return b.text(`SELECT coalesce(string_agg(concat_ws(' ', subject, payload->>'status', payload->>'change', sequence), ', ' ORDER BY seq), '') FROM outbox_events WHERE stream = 'FLEET'`)
}

func (b *bundle) propose(c identity.Caller, files string) (change.Stored, error) {
	return b.Propose(b.ctx, by[change.Stored](c), change.Request{Files: map[string][]byte{"fleet.yaml": []byte(files)}})
}

func (b *bundle) proposed(c identity.Caller, files string) change.Stored {
	b.t.Helper()
	p, err := b.propose(c, files)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

// git applies objects as a source does, at commit c1.
func (b *bundle) git(objects ...desired.Object) {
	b.t.Helper()
	if rev, err := b.apply("c1", nil, objects...); err != nil || rev.Status != revision.StatusApplied {
		b.t.Fatalf("%+v, %v", rev, err)
	}
}

func (b *bundle) apply(commit string, gate revision.Gate, objects ...desired.Object) (revision.Revision, error) {
	store := &revision.Store{Store: &desired.Store{DB: pgtest.As(b.t, b.db, "gpuaas_reconcile"), Hints: &hint.Bus{}}}
	for i := range objects {
		objects[i].Source = desired.Source{Owner: desired.OwnerGit, Name: "fleet", Repository: "git://fleet", Commit: commit, Path: "fleet.yaml", Line: i + 1, Column: 1}
	}
	snap := revision.Snapshot{Source: "fleet", Repository: "git://fleet", Commit: commit, TreeHash: "tree-" + commit, Objects: objects, Generated: true}
	return store.Apply(b.t.Context(), snap, gate)
}

func (b *bundle) source() {
	b.exec(`INSERT INTO git_sources (name, repository, ref, dirs, declared_by) VALUES ('fleet', 'git://fleet', 'main', '{.}', 'server')`)
}

func sku(name string, price int) string {
	return fmt.Sprintf("apiVersion: gpuaas/v1alpha1\nkind: SKU\nmetadata: {name: %s}\nspec: {gpuModel: H100, memoryGiB: 80, isolation: host_user, maxGPUs: 8, price: {currency: EUR, amountMinor: %d}}\n", name, price)
}

func node(name, sku string) string {
	return fmt.Sprintf("apiVersion: gpuaas/v1alpha1\nkind: Node\nmetadata: {name: %s}\nspec: {sku: %s, region: eu-1, gpus: 8}\n", name, sku)
}

func skuObject(name string, price int64) desired.Object {
	return object(desired.KindSKU, name, desired.SKU{
		DisplayName: name, GPUModel: "H100", MemoryGiB: 80, Isolation: "host_user", MaxGPUs: 8, Active: true,
		Price: desired.Price{Currency: "EUR", AmountMinor: price},
	})
}

func object(kind desired.Kind, name string, spec any) desired.Object {
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	var sorted map[string]any // as validation leaves it
	_ = json.Unmarshal(text, &sorted)
	text, _ = json.Marshal(sorted)
	return desired.Object{Kind: kind, Name: name, Spec: text}
}

func docs(list ...string) string { return strings.Join(list, "---\n") }

func wantCode(t *testing.T, what string, err error, want errs.Code) {
	t.Helper()
	if errs.CodeOf(err) != want {
		t.Errorf("%s: %v, want %s", what, err, want)
	}
}

func moved(err error) []string {
	var coded *errs.Error
	if !errors.As(err, &coded) || coded.Code != errs.PlanStale {
		return nil
	}
	list, _ := coded.Details["moved"].([]string)
	return list
}
