package jobs_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/dev/forge"
	gitopsforge "github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/internal/secretref/secretreftest"
)

// teller is a world with workers and a forge, which the source "fleet" names.
type teller struct {
	*bundle

	double *forge.Double
	commit string
}

func setupTeller(t *testing.T) *teller {
	t.Helper()
	b := &teller{bundle: setup(t)}
	var err error
	if b.double, err = forge.New(t.Context(), forge.Config{Kind: forge.Gitea, Dir: t.TempDir(), Project: "acme/fleet", Token: "t"}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(b.double)
	t.Cleanup(server.Close)
	b.deps.Credentials = secretreftest.Credentials(t, server.URL, map[string]string{"token": "t"})
	settings := fmt.Appendf(nil, `{"forge":{"kind":"gitea","url":%q,"project":"acme/fleet","tokenRef":"credential:token"}}`, server.URL)
	b.declareSource(settings)
	b.commit = b.git("commit-tree", "-m", "first", b.git("mktree"))
	b.deps.Reports.Jobs = b.client
	return b
}

func (b *teller) declareSource(settings []byte) {
	b.t.Helper()
	spec := revision.SourceSpec{Name: "fleet", Repository: "file:///srv/fleet.git", Ref: "main", Dirs: []string{"."}, Settings: settings}
	if err := b.deps.Desired.DeclareSources(b.t.Context(), revision.DeclaredByServer, []revision.SourceSpec{spec}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *teller) git(args ...string) string {
	b.t.Helper()
	cmd := exec.CommandContext(b.t.Context(), "git", append([]string{"--git-dir", b.double.Repository(), "-c", "user.name=Ada", "-c", "user.email=ada@example.com"}, args...)...)
	cmd.Stdin = strings.NewReader("")
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("git %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

func (b *teller) want(state gitopsforge.State, text string) {
	b.t.Helper()
	b.Do(b.t, func(tx pgx.Tx) error {
		return b.deps.Reports.Put(b.t.Context(), tx, []gitopsforge.Report{
			gitopsforge.OfCommit("fleet", b.commit, gitopsforge.Status{Context: gitopsforge.ContextValidate, State: state, Text: text}),
		})
	})
}

// displayed waits until the forge has the status.
func (b *teller) displayed(state gitopsforge.State, text string) {
	b.t.Helper()
	var got forge.Status
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
		if got = b.double.Statuses(b.commit)[gitopsforge.ContextValidate]; got.State == string(state) && got.Text == text {
			return
		}
	}
	b.t.Fatalf("the forge shows %+v, want %s %s", got, state, text)
}

// left are the jobs that wait for later.
func (b *teller) left() int {
	return b.count(`SELECT count(*) FROM river.river_job WHERE kind = 'report_forge' AND state IN ('scheduled', 'available', 'retryable')`)
}

// TestForgeGetsTheReport checks that reports which are stored during a job do not add a job each. A
// job that ends while another one sends a report leaves one for the second at which that report's
// lease ends, so a run of some seconds leaves some.
func TestForgeGetsTheReport(t *testing.T) {
	t.Parallel()
	b := setupTeller(t)
	for i := range 20 { // each may meet the end of the one before
		b.want(gitopsforge.Pending, fmt.Sprintf("sync %d", i))
	}
	b.want(gitopsforge.Success, "valid")
	b.displayed(gitopsforge.Success, "valid")
	if n := b.left(); n > 5 {
		t.Errorf("%d jobs are left", n)
	}
}

func TestForgeThatFailsGetsReportsLater(t *testing.T) {
	t.Parallel()
	b := setupTeller(t)
	b.double.InjectFault(forge.Fault{Status: 503, Times: 1})
	b.want(gitopsforge.Success, "valid")
	later := func() int {
		return b.count(`SELECT count(*) FROM river.river_job WHERE kind = 'report_forge' AND state = 'scheduled' AND scheduled_at > now() + interval '2 seconds'`)
	}
	for until := time.Now().Add(10 * time.Second); later() == 0; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("no job waits for later")
		}
	}
	b.exec(`UPDATE forge_reports SET next_at = now()`)
	b.done(gitopsforge.ReportForge{Source: "fleet"})
	b.displayed(gitopsforge.Success, "valid")
}

// TestWishWithoutAJobIsFound checks a pending report without a job: the job was lost or never
// queued.
func TestWishWithoutAJobIsFound(t *testing.T) {
	t.Parallel()
	b := setupTeller(t)
	b.deps.Reports.Jobs = none{}
	b.want(gitopsforge.Failure, "line 12")
	b.done(gitopsforge.ReportForge{})
	b.displayed(gitopsforge.Failure, "line 12")
}

// TestSourceWithoutAForgeSendsNothing checks that a source without a forge sends nothing and queues
// no further jobs.
func TestSourceWithoutAForgeSendsNothing(t *testing.T) {
	t.Parallel()
	b := setupTeller(t)
	b.declareSource([]byte(`{}`))
	b.want(gitopsforge.Success, "valid")
	b.done(gitopsforge.ReportForge{Source: "fleet"})
	b.done(gitopsforge.ReportForge{Source: "never declared"})
	if n := len(b.double.Calls()); n != 0 || b.left() != 0 {
		t.Errorf("%d calls, %d jobs left", n, b.left())
	}
}

func TestSecretThatIsMissingIsSaid(t *testing.T) {
	t.Parallel()
	b := setupTeller(t)
	b.declareSource([]byte(`{"forge":{"kind":"github","url":"https://api.github.com","project":"acme/fleet","tokenRef":"credential:no-such-token"}}`))
	b.want(gitopsforge.Success, "valid")
	b.done(gitopsforge.ReportForge{Source: "fleet"})
	shown, err := b.deps.Reports.Of(t.Context(), "fleet", "", 1)
	if err != nil || len(shown) != 1 || !strings.Contains(shown[0].Fault, "credential:no-such-token") {
		t.Errorf("%+v, %v", shown, err)
	}
}

// none enqueues nothing.
type none struct{}

func (none) InsertTx(context.Context, pgx.Tx, river.JobArgs, *river.InsertOpts) (*rivertype.JobInsertResult, error) {
	return &rivertype.JobInsertResult{}, nil
}
