package sync_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/gitops/source"
	gitopssync "github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

func TestMain(m *testing.M) {
	validate.Child()
	if step != nil && os.Getenv("FOLLOW_TEST_DB") != "" {
		if err := step(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// step is the function that the test binary runs when it was started as a server for one poll.
var step func(ctx context.Context) error

// repo is a repository made with the real git.
type repo struct {
	t    *testing.T
	path string
}

func newRepo(t *testing.T) repo {
	t.Helper()
	r := repo{t, t.TempDir()}
	r.git("init", "-q", "-b", "main")
	return r
}

func (r repo) git(args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(r.t.Context()), "git", args...)
	cmd.Dir = r.path
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_TERMINAL_PROMPT=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		r.t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit makes the folder contain exactly these files.
func (r repo) commit(files map[string]string) string {
	r.t.Helper()
	if err := os.RemoveAll(filepath.Join(r.path, "fleet")); err != nil {
		r.t.Fatal(err)
	}
	for name, body := range files {
		full := filepath.Join(r.path, "fleet", name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(body), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
	r.git("add", "-A")
	r.git("commit", "-q", "--allow-empty", "-m", "declare the fleet")
	return r.git("rev-parse", "HEAD")
}

func (r repo) url() string { return "file://" + r.path }

const environment = `apiVersion: gpuaas/v1alpha1
kind: Environment
metadata: {name: prod}
spec: {region: eu-1, trustDomain: gpuaas.example, development: true%s}
`

// sku has one price. A change of the price would wait for an approval.
func sku(name string, memory int) string {
	return fmt.Sprintf("apiVersion: gpuaas/v1alpha1\nkind: SKU\nmetadata: {name: %s}\nspec: {gpuModel: Tesla T4, memoryGiB: %d, price: {currency: EUR, amountMinor: 35}}\n", name, memory)
}

// skus returns n files with one SKU each, and the environment.
func skus(n, memory int) map[string]string {
	files := map[string]string{"env.yaml": fmt.Sprintf(environment, "")}
	for i := range n {
		files[fmt.Sprintf("s%03d.yaml", i)] = sku(fmt.Sprintf("s%03d", i), memory)
	}
	return files
}

func with(files map[string]string, name, body string) map[string]string {
	more := maps.Clone(files)
	more[name] = body
	return more
}

func without(files map[string]string, names ...string) map[string]string {
	fewer := maps.Clone(files)
	for _, n := range names {
		delete(fewer, n)
	}
	return fewer
}

// inputs contains no allocations, and every scope of a policy exists. The tests of gitops/change cover
// the effects.
type inputs struct{}

func (*inputs) Inputs(_ context.Context, _ pg.Queryer, t preview.Touched) (preview.Inputs, error) {
	f := preview.Inputs{Subjects: map[policies.Scope]policies.Scope{}}
	for _, scope := range t.Scopes {
		f.Subjects[scope] = scope
	}
	return f, nil
}

// installation is an installation that syncs a repository with the rights of the loop.
type installation struct {
	*gitopssync.Syncer

	t      *testing.T
	db     *pgxpool.Pool
	repo   repo
	inputs *inputs
	hints  *hint.Bus
	// people decide, from another process.
	people *change.Service

	mu    sync.Mutex
	rules gitopssync.Rules
	limit preview.Rules
}

func setup(t *testing.T) *installation {
	t.Helper()
	h := &installation{t: t, db: pgtest.Clone(t), repo: newRepo(t), inputs: &inputs{}, hints: &hint.Bus{}}
	h.rules = gitopssync.Rules{Poll: 10 * time.Millisecond, Limits: source.DefaultLimits()}
	h.limit = preview.Rules{PruneObjects: 1, PrunePercent: 10, Requires: []string{preview.RequiresApproved}, MassPercent: 100, MassMinimum: 100}
	h.Syncer = h.replica()
	h.people = h.changes(h.db)
	return h
}

func (h *installation) changes(db pg.Pool) *change.Service {
	return &change.Service{
		Roles: func() policies.RoleTable { return policies.RoleTable{} },
		DB:    db, Desired: &revision.Store{Store: &desired.Store{DB: db, Hints: h.hints}}, Identity: &identity.Service{DB: db}, Gather: h.inputs.Inputs, Naming: ids.DefaultNaming, Hints: h.hints,
		Validate: validate.Run, Rules: func() preview.Rules { h.mu.Lock(); defer h.mu.Unlock(); return h.limit },
	}
}

// replica is one more server that follows the same repository.
func (h *installation) replica() *gitopssync.Syncer {
	h.t.Helper()
	source, err := source.Open(h.repo.path, "main", "fleet")
	if err != nil {
		h.t.Fatal(err)
	}
	changes := h.changes(pgtest.As(h.t, h.db, "gpuaas_reconcile"))
	f := &gitopssync.Syncer{
		Desired: changes.Desired, Change: changes, Root: gitopssync.Root{Name: "fleet", Git: source}, Environment: "prod", Development: true, Dir: h.t.TempDir(),
		Rules:  func() gitopssync.Rules { h.mu.Lock(); defer h.mu.Unlock(); return h.rules },
		Naming: ids.DefaultNaming, Metrics: gitopssync.NewMetrics(), Hints: h.hints, Log: slog.New(slog.DiscardHandler),
	}
	changes.Desired.Record = f.Record
	return f
}

func (h *installation) decide(change func(r *gitopssync.Rules, l *preview.Rules)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.rules, &h.limit)
}

// sync polls the root source once. A second person approves a change that waits only because it is
// sensitive.
func (h *installation) sync() revision.Revision {
	h.t.Helper()
	rev, err := h.Sync(h.t.Context())
	if err == nil && h.approveSensitive() {
		rev, err = h.Sync(h.t.Context())
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return rev
}

func (h *installation) approveSensitive() (approved bool) {
	h.t.Helper()
	plans, err := h.people.Plans(h.t.Context(), change.Filter{Status: change.StatusProposed})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, p := range plans {
		if len(p.Plan.Waits) == 1 && p.Plan.Waits[0].Reason == preview.WaitSensitive && p.Pull == 0 {
			if _, err := h.people.Approve(h.t.Context(), as("second@example.com"), p.ID, "", "read"); err != nil && errs.CodeOf(err) != errs.PlanStale && errs.CodeOf(err) != errs.Conflict {
				h.t.Error(err)
			}
			approved = true
		}
	}
	return approved
}

// run follows all sources until the test ends.
func (h *installation) run(f *gitopssync.Syncer) {
	ctx, cancel := context.WithCancel(h.t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	})
}

// until waits for a condition.
func (h *installation) until(what string, holds func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			h.t.Fatalf("not within 20 s: %s", what)
		}
		h.approveSensitive()
		time.Sleep(5 * time.Millisecond)
	}
}

// declared returns the desired objects without tombstones, as "Kind/name generation".
func (h *installation) declared() string {
	h.t.Helper()
	return h.text(`SELECT coalesce(string_agg(kind || '/' || name || ' ' || generation, ', ' ORDER BY kind, name), '') FROM desired_objects WHERE deleted_at IS NULL`)
}

func (h *installation) text(sql string, args ...any) (text string) {
	h.t.Helper()
	if err := h.db.QueryRow(h.t.Context(), sql, args...).Scan(&text); err != nil {
		h.t.Fatal(err)
	}
	return text
}

func (h *installation) source(name string) revision.SourceState {
	h.t.Helper()
	s, err := h.Desired.SourceByName(h.t.Context(), h.db, name)
	if err != nil && errs.CodeOf(err) != errs.NotFound {
		h.t.Fatal(err)
	}
	return s
}

func (h *installation) tx(do func(pgx.Tx) error) {
	h.t.Helper()
	if err := pgx.BeginFunc(h.t.Context(), h.db, do); err != nil {
		h.t.Fatal(err)
	}
}

// as is a person of the platform.
func as(email string) identity.Change[change.Stored] {
	return identity.Change[change.Stored]{Caller: identity.Caller{User: ids.New[ids.User](), Email: email}}
}

func statusOf(rev revision.Revision) string {
	text := fmt.Sprintf("%s +%d ~%d -%d", rev.Status, rev.Created, rev.Changed, rev.Deleted)
	if rev.Adopted > 0 {
		text += fmt.Sprintf(" adopted %d", rev.Adopted)
	}
	for _, w := range rev.Waits {
		text += " " + w.Reason
	}
	return text
}

func codes(rev revision.Revision) string {
	list := make([]string, len(rev.Findings))
	for i, f := range rev.Findings {
		list[i] = f.Code
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), " ")
}

func (h *installation) put(o desired.Object) {
	h.t.Helper()
	var spec any
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		h.t.Fatal(err)
	}
	o.Spec, _ = json.Marshal(spec) // as the validation writes it
	h.tx(func(tx pgx.Tx) error {
		_, err := h.people.Desired.Put(h.t.Context(), tx, o)
		return err
	})
}

func (h *installation) offer(sku, source string) {
	h.t.Helper()
	h.tx(func(tx pgx.Tx) error {
		_, err := h.people.Desired.OfferAdoption(h.t.Context(), tx, desired.Name{Kind: desired.KindSKU, Name: sku}, source, 0)
		return err
	})
}

func (h *installation) suspend(source string, by *desired.Suspension) {
	h.t.Helper()
	h.tx(func(tx pgx.Tx) (err error) {
		if by == nil {
			_, err = h.people.Desired.ResumeSource(h.t.Context(), tx, source)
			return err
		}
		_, err = h.people.Desired.SuspendSource(h.t.Context(), tx, source, *by)
		return err
	})
}

// requestPoll requests an immediate poll.
func (h *installation) requestPoll(source string) {
	h.t.Helper()
	if _, err := h.people.Desired.RequestSync(h.t.Context(), h.db, source); err != nil {
		h.t.Fatal(err)
	}
	h.hints.Send(revision.HintSources)
}

// point follows another repository under the same name.
func (h *installation) point(location string) {
	h.t.Helper()
	source, err := source.Open(location, "main", "fleet")
	if err != nil {
		h.t.Fatal(err)
	}
	h.Root.Git = source
}
