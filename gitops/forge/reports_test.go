package forge_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

// listener is a forge that records its calls and fails on request.
type listener struct {
	mu        sync.Mutex
	said      []string
	rejection func(what string) error
	during    func() // during a call
}

func (l *listener) hear(what string) error {
	if l.during != nil {
		l.during()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rejection != nil {
		if err := l.rejection(what); err != nil {
			return err
		}
	}
	l.said = append(l.said, what)
	return nil
}

func (l *listener) heard() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	said := l.said
	l.said = nil
	slices.Sort(said)
	return said
}

func (*listener) Open(context.Context, string) ([]forge.Pull, error) {
	return nil, errors.New("not called by this test")
}

func (l *listener) Status(_ context.Context, commit string, s forge.Status) error {
	return l.hear(fmt.Sprintf("%s %s %s", commit, s.State, s.Text))
}

func (l *listener) Comment(_ context.Context, c forge.Comment) (string, error) {
	id := c.RemoteID
	if id == "" {
		id = "17"
	}
	return id, l.hear(fmt.Sprintf("%s on %d: %s%s", id, c.Pull, c.Marker, c.Body))
}

// queuedJobs records the queued jobs.
type queuedJobs struct {
	mu  sync.Mutex
	all []river.JobArgs
}

func (o *queuedJobs) InsertTx(_ context.Context, _ pgx.Tx, args river.JobArgs, _ *river.InsertOpts) (*rivertype.JobInsertResult, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, args)
	return &rivertype.JobInsertResult{}, nil
}

type book struct {
	*testing.T
	*forge.Reports

	pool  *pgxpool.Pool
	jobs  *queuedJobs
	forge *listener
}

// openBook uses the rights of the loop to store reports and the rights of the workers to send them.
func openBook(t *testing.T) *book {
	t.Helper()
	pool := pgtest.Clone(t)
	b := &book{T: t, pool: pool, jobs: &queuedJobs{}, forge: &listener{}}
	b.Reports = &forge.Reports{DB: pgtest.As(t, pool, "gpuaas_work"), Jobs: b.jobs}
	return b
}

func (b *book) want(reports ...forge.Report) {
	b.Helper()
	loop := pgtest.As(b.T, b.pool, "gpuaas_reconcile")
	if err := pgx.BeginFunc(b.Context(), loop, func(tx pgx.Tx) error { return b.Put(b.Context(), tx, reports) }); err != nil {
		b.Fatal(err)
	}
}

func (b *book) lines() []string {
	b.Helper()
	if err := b.Send(b.Context(), "fleet", b.forge, 100); err != nil {
		b.Fatal(err)
	}
	return b.forge.heard()
}

// later has every wait be over.
func (b *book) later() {
	b.Helper()
	if _, err := b.pool.Exec(b.Context(), `UPDATE forge_reports SET next_at = now()`); err != nil {
		b.Fatal(err)
	}
}

// waits returns the remaining delay of each subject in whole seconds.
func (b *book) waits() map[string]int {
	b.Helper()
	rows, err := b.pool.Query(b.Context(), `SELECT subject, extract(epoch FROM next_at - now())::int FROM forge_reports WHERE sent_hash <> hash`)
	if err != nil {
		b.Fatal(err)
	}
	waits := map[string]int{}
	var subject string
	var seconds int
	if _, err := pgx.ForEachRow(rows, []any{&subject, &seconds}, func() error { waits[subject] = seconds; return nil }); err != nil {
		b.Fatal(err)
	}
	return waits
}

func status(commit string, state forge.State, text string) forge.Report {
	return forge.OfCommit("fleet", commit, forge.Status{Context: forge.ContextPlan, State: state, Text: text})
}

func (b *book) expect(want ...string) {
	b.Helper()
	if got := b.lines(); !slices.Equal(got, want) {
		b.Errorf("the forge heard %q, want %q", got, want)
	}
}

func TestOnlyDifferencesAreSent(t *testing.T) {
	t.Parallel()
	b := openBook(t)
	b.want(status("c1", forge.Pending, "planning"), forge.OfPull("fleet", 7, "plan one"), forge.OfPull("catalogue", 7, "another source's"))
	b.expect("17 on 7: <!-- gpuaas:plan:fleet -->plan one", "c1 pending planning")
	b.expect()
	b.want(status("c1", forge.Pending, "planning"), forge.OfPull("fleet", 7, "plan one"))
	b.expect()
	b.want(status("c1", forge.Pending, "still planning"), status("c1", forge.Success, "no change"))
	b.expect("c1 success no change")
	b.want(forge.OfPull("fleet", 7, "plan two"))
	b.expect("17 on 7: <!-- gpuaas:plan:fleet -->plan two")
	// Three kinds of calls, new, sent and unchanged: only a change queues a job.
	if n := len(b.jobs.all); n != 4 {
		t.Errorf("%d jobs: %+v", n, b.jobs.all)
	}
}

func TestForgeThatWasAwayGetsReportsOnceAndLater(t *testing.T) {
	t.Parallel()
	b := openBook(t)
	asked := 0
	b.forge.rejection = func(string) error {
		asked++
		return errs.New(errs.Unavailable, "the forge cannot be reached")
	}
	for _, commit := range many(5) {
		b.want(status(commit, forge.Success, "fits"))
	}
	var last int
	for attempt := 1; attempt <= 12; attempt++ {
		b.expect()
		if asked != attempt {
			t.Fatalf("sent %d requests in %d rounds: the others would meet the same", asked, attempt)
		}
		for subject, seconds := range b.waits() {
			if seconds < 4 || seconds > 601 {
				t.Errorf("%s waits for %d s", subject, seconds)
			}
			last = max(last, seconds)
		}
		b.later()
	}
	if last < 20 {
		t.Errorf("the longest pause was %d s: it does not grow", last)
	}
	b.forge.rejection = nil
	if got := b.lines(); len(got) != 5 {
		t.Errorf("sent %q, want 5", got)
	}
	b.expect()
}

func TestRequestedPauseIsObserved(t *testing.T) {
	t.Parallel()
	w := alone(t, forge.GitHub, nil)
	b := openBook(t)
	b.want(status(strings.Repeat("a", 40), forge.Success, "x"), status(strings.Repeat("b", 40), forge.Success, "x"))
	w.double.InjectFault(faulty(429, "Retry-After", "1800"))
	if err := b.Send(t.Context(), "fleet", w.forge, 100); err != nil {
		t.Fatal(err)
	}
	for subject, seconds := range b.waits() {
		if seconds < 1795 || seconds > 1800 {
			t.Errorf("%s waits for %d s, want 1800", subject, seconds)
		}
	}
	if n := len(w.double.Calls()); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
	// Nor does what changes meanwhile break the pause.
	b.want(status(strings.Repeat("a", 40), forge.Failure, "y"))
	if seconds := b.waits()[strings.Repeat("a", 40)]; seconds < 1795 {
		t.Errorf("now it waits for %d s", seconds)
	}
}

// TestRejectionOfOneHoldsUpNoOther checks that a rejected report stores its reason and delays no
// other.
func TestRejectionOfOneHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := openBook(t)
	b.forge.rejection = func(what string) error {
		if strings.HasPrefix(what, "bad") {
			return fmt.Errorf("stating: %w", errs.New(errs.NotFound, "the forge does not know it"))
		}
		return nil
	}
	b.want(status("bad", forge.Success, "x"))
	b.want(status("good", forge.Success, "x"))
	b.expect("good success x")
	shown, err := b.Of(t.Context(), "fleet", "bad", 10)
	if err != nil || len(shown) != 1 || shown[0].Sent || shown[0].Fault != "the forge does not know it" || shown[0].Attempts != 1 {
		t.Errorf("%+v, %v", shown, err)
	}
}

// TestChangeDuringASendIsSentNext checks a change of the row during the request: the new content
// stays pending.
func TestChangeDuringASendIsSentNext(t *testing.T) {
	t.Parallel()
	b := openBook(t)
	b.want(status("c1", forge.Pending, "planning"))
	var once sync.Once
	b.forge.during = func() { once.Do(func() { b.want(status("c1", forge.Success, "planned")) }) }
	b.expect("c1 pending planning", "c1 success planned")
}

// TestCrashWhileTelling checks that a report of a crashed worker is sent again after its lock has
// expired.
func TestCrashWhileTelling(t *testing.T) {
	t.Parallel()
	b := openBook(t)
	b.want(forge.OfPull("fleet", 7, "plan"))
	dying, die := context.WithCancel(t.Context())
	b.forge.during = die
	if err := b.Send(dying, "fleet", b.forge, 100); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	b.forge.during, b.forge.said = nil, nil
	b.expect() // the other one may be alive
	if seconds := b.waits()["pull/7"]; seconds < 60 || seconds > 120 {
		t.Errorf("the lease ends in %d s", seconds)
	}
	b.later()
	b.expect("17 on 7: <!-- gpuaas:plan:fleet -->plan")
}

func TestTwoWorkersSendEachOnce(t *testing.T) {
	t.Parallel()
	b := openBook(t)
	for _, commit := range many(20) {
		b.want(status(commit, forge.Success, "fits"))
	}
	var both sync.WaitGroup
	for range 3 {
		both.Go(func() {
			if err := b.Send(t.Context(), "fleet", b.forge, 100); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if got := b.forge.heard(); len(got) != 20 || len(slices.Compact(got)) != 20 {
		t.Errorf("%d sent: %q", len(got), got)
	}
}

func TestWhatIsAWeekOldIsForgotten(t *testing.T) {
	t.Parallel()
	b := openBook(t)
	b.want(status("c1", forge.Success, "x"))
	if _, err := b.pool.Exec(t.Context(), `UPDATE forge_reports SET updated_at = now() - interval '8 days'`); err != nil {
		t.Fatal(err)
	}
	b.expect()
	if untold, err := b.Pending(t.Context(), b.pool, ""); err != nil || len(untold) != 0 {
		t.Errorf("%v, %v", untold, err)
	}
}

func TestPendingNamesSourcesAndTimes(t *testing.T) {
	t.Parallel()
	b := openBook(t)
	b.want(status("c1", forge.Success, "x"), forge.OfPull("catalogue", 1, "plan"))
	if err := b.PutOff(t.Context(), "catalogue", errs.New(errs.NotFound, "no secret at env:TOKEN"), time.Minute); err != nil {
		t.Fatal(err)
	}
	untold, err := b.Pending(t.Context(), b.pool, "")
	if err != nil || len(untold) != 2 || untold["catalogue"].Sub(untold["fleet"]) < 50*time.Second {
		t.Errorf("%v, %v", untold, err)
	}
	shown, err := b.Of(t.Context(), "catalogue", "", 10)
	if err != nil || len(shown) != 1 || shown[0].Fault != "no secret at env:TOKEN" {
		t.Errorf("%+v, %v", shown, err)
	}
}

// TestOddTextIsStored: neither NUL nor half a character stops a report.
func TestOddTextIsStored(t *testing.T) {
	t.Parallel()
	b := openBook(t)
	b.want(status("c1", forge.Failure, "a\x00b\xffc"))
	b.expect("c1 failure a�b�c")
}
