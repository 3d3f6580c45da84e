package sync_test

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/dev/forge"
	gitopsforge "github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/gitops/preview"
	gitopssync "github.com/gpuaas/gpuaas/gitops/sync"
	"github.com/gpuaas/gpuaas/internal/secretref/secretreftest"
)

// names declares these sources in the root's profile.
func names(sources ...string) string {
	return fmt.Sprintf(environment, fmt.Sprintf(", sources: [%s]", strings.Join(sources, ", ")))
}

func other(name string, r repo) string {
	return fmt.Sprintf("{name: %s, repository: %q, dirs: [fleet]}", name, r.url())
}

// The profile names a source, and the sync starts. After its removal from the profile, the objects
// stay until another source adopts them.
func TestSourcesComeAndGo(t *testing.T) {
	t.Parallel()
	h := setup(t)
	team := newRepo(t)
	team.commit(map[string]string{"a.yaml": sku("team-a", 5)})
	h.repo.commit(with(skus(1, 35), "env.yaml", names(other("team", team))))
	h.run(h.Syncer)
	h.until("the second source is applied", func() bool { return h.source("team").Applied.Revision > 0 && h.source("team").CheckedAt != nil })
	if s := h.source("team"); s.DeclaredBy != revision.DeclaredByEnvironment || s.Conditions(time.Now())[0].Status != "True" {
		t.Errorf("%+v", s)
	}
	team.commit(map[string]string{"a.yaml": sku("team-a", 6)})
	h.until("its next commit is applied", func() bool { return strings.Contains(h.declared(), "SKU/team-a 2") })

	team.commit(map[string]string{"a.yaml": sku("team-a", 6), "env.yaml": fmt.Sprintf(environment, "")})
	h.until("its environment is rejected", func() bool {
		l := h.source("team").Latest
		return l.Status == revision.StatusInvalid && codes(l) == desired.CodeKindNotAllowed
	})
	team.commit(map[string]string{"a.yaml": sku("s000", 6)})
	h.until("another source's name is rejected", func() bool { return codes(h.source("team").Latest) == desired.CodeManagedByGit })

	h.repo.commit(skus(1, 35))
	h.until("it is gone", func() bool { return h.source("team").GoneAt != nil })
	if !strings.Contains(h.declared(), "SKU/team-a 2") {
		t.Error(h.declared())
	}
	h.offer("team-a", "fleet")
	h.repo.commit(with(skus(1, 35), "a.yaml", sku("team-a", 6)))
	h.until("the first source has adopted it", func() bool {
		return h.text(`SELECT source FROM desired_objects WHERE name = 'team-a'`) == "fleet"
	})
	if !strings.Contains(h.declared(), "SKU/team-a 2") {
		t.Errorf("adopted as another: %s", h.declared())
	}
}

// An unavailable repository is a fault with its time. The watcher polls it less and less often, and
// delays no other source. The sync continues after the repository is available again.
func TestSourceIsAway(t *testing.T) {
	t.Parallel()
	h := setup(t)
	team := newRepo(t)
	team.commit(map[string]string{"a.yaml": sku("team-a", 5)})
	h.repo.commit(with(skus(1, 35), "env.yaml", names(other("team", team))))
	h.run(h.Syncer)
	h.until("it is applied", func() bool { return h.source("team").Applied.Revision > 0 })
	away := team.path + ".away"
	if err := os.Rename(team.path, away); err != nil {
		t.Fatal(err)
	}
	h.requestPoll("team")
	h.until("it has a fault", func() bool { return h.source("team").FaultSince != nil })
	since := *h.source("team").FaultSince
	h.requestPoll("team")
	h.repo.commit(with(skus(1, 36), "env.yaml", names(other("team", team))))
	h.until("the other goes on", func() bool { return strings.Contains(h.declared(), "SKU/s000 2") })
	s := h.source("team")
	c := s.Conditions(time.Now())
	stalled := slices.ContainsFunc(c, func(one desired.Condition) bool { return one.Type == "Stalled" && one.Status == "True" })
	if !s.FaultSince.Equal(since) || c[0].Reason != "Unreachable" || !stalled || !strings.Contains(h.Fault(), "team") || s.Lag(time.Now()) <= 0 {
		t.Errorf("since %s after %s: %+v, %q", s.FaultSince, since, c, h.Fault())
	}
	if err := os.Rename(away, team.path); err != nil {
		t.Fatal(err)
	}
	h.requestPoll("team")
	h.until("it is followed again", func() bool { return h.source("team").FaultSince == nil && h.Fault() == "" })
}

// A hostile source costs its own child and deadline; others are not twice as slow.
func TestINV15HostileSourceSlowsNoOther(t *testing.T) {
	t.Parallel()
	h := setup(t)
	stuck, err := net.Listen("tcp", "127.0.0.1:0") // a server that accepts the call and never responds
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stuck.Close() })
	bomb := newRepo(t)
	bomb.commit(map[string]string{"a.cue": "package fleet\n#x: [for a in [1,2,3,4,5,6,7,8,9] for b in [1,2,3,4,5,6,7,8,9] for c in [1,2,3,4,5,6,7,8,9] for d in [1,2,3,4,5,6,7,8,9] for e in [1,2,3,4,5,6,7,8,9] for f in [1,2,3,4,5,6,7,8,9] for g in [1,2,3,4,5,6,7,8,9] {\"\\(a)\\(b)\\(c)\": d}]\nx: #x\n"})
	hang := fmt.Sprintf("{name: hang, repository: %q, dirs: [fleet]}", "https://"+stuck.Addr().String()+"/x.git")
	h.repo.commit(with(skus(1, 35), "env.yaml", names(other("bomb", bomb), hang)))
	h.run(h.Syncer)
	h.until("the bomb is being fetched", func() bool { return h.source("bomb").Name != "" && h.source("hang").Name != "" })
	for price := 36; price < 40; price++ {
		h.repo.commit(with(skus(1, price), "env.yaml", names(other("bomb", bomb), hang)))
		h.until("the first source goes on", func() bool { return strings.Contains(h.declared(), fmt.Sprintf("SKU/s000 %d", price-34)) })
	}
	h.until("the bomb is rejected", func() bool { return h.source("bomb").Latest.Status == revision.StatusInvalid })
	if c := codes(h.source("bomb").Latest); strings.Contains(h.declared(), "bomb") || c == "" {
		t.Errorf("%s rejected as %q", h.declared(), c)
	}
}

// Commits while replicas race: one pointer, each state of which is one commit whole,
// and the last commit is what stays.
func TestINV10ReplicasRace(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.repo.commit(skus(10, 1))
	h.sync()
	for range 2 {
		h.run(h.replica())
	}
	stop := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			var prices int
			if err := h.db.QueryRow(t.Context(), `SELECT count(DISTINCT spec->>'memoryGiB') FROM desired_objects WHERE kind = 'SKU' AND deleted_at IS NULL`).Scan(&prices); err != nil || prices != 1 {
				t.Errorf("%d prices at once, %v", prices, err)
				return
			}
		}
	})
	last := ""
	for price := 2; price < 12; price++ {
		last = h.repo.commit(skus(10, price))
		h.hints.Send(revision.HintSources)
	}
	h.until("the last commit is applied", func() bool { return h.source("fleet").Applied.Commit == last })
	close(stop)
	watching.Wait()
	if n := h.text(`SELECT (count(*) - count(DISTINCT commit))::text FROM desired_revisions`); n != "0" {
		t.Errorf("%s commits were applied more than once", n)
	}
}

// INV-10: a commit of which a part is missing changes nothing; it is no fault of its
// author, and heals.
func TestINV10TornCommit(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.repo.commit(skus(3, 35))
	h.sync()
	before := h.declared()
	h.repo.commit(skus(3, 36))
	blob := h.repo.git("rev-parse", "HEAD:fleet/s001.yaml")
	file := filepath.Join(h.repo.path, ".git", "objects", blob[:2], blob[2:])
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	if rev, err := h.Sync(t.Context()); err == nil || rev.Revision != 0 || h.declared() != before || h.source("fleet").FaultSince == nil {
		t.Errorf("%+v, %v: %s", rev, err, h.declared())
	}
	if err := os.Rename(file+".away", file); err != nil {
		t.Fatal(err)
	}
	if rev := h.sync(); statusOf(rev) != "applied +0 ~3 -0" || h.source("fleet").FaultSince != nil {
		t.Error(statusOf(rev))
	}
}

// INV-18: where signatures are required, a commit without one is rejected before its files are
// read.
func TestINV18UnsignedIsRejected(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.repo.commit(skus(2, 35))
	h.sync()
	before := h.declared()
	h.decide(func(r *gitopssync.Rules, _ *preview.Rules) { r.Signed = true })
	h.repo.commit(with(skus(2, 36), "broken.yaml", "{"))
	rev := h.sync()
	if rev.Status != revision.StatusInvalid || codes(rev) != desired.CodeSignatureRequired || h.declared() != before {
		t.Errorf("%s %v", statusOf(rev), rev.Findings)
	}
	h.decide(func(r *gitopssync.Rules, _ *preview.Rules) { r.Signed = false })
	h.repo.commit(skus(2, 36))
	if rev := h.sync(); statusOf(rev) != "applied +0 ~2 -0" {
		t.Error(statusOf(rev))
	}
}

// What a source was known by before it had a name is its own.
func TestOldNameIsTakenOver(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.repo.commit(skus(2, 35))
	h.sync()
	for _, sql := range []string{
		`UPDATE desired_objects SET source = repository`, `UPDATE desired_revisions SET source = repository`, `UPDATE desired_pointer SET source = '` + h.repo.path + `'`,
		`DELETE FROM git_sources`,
	} {
		if _, err := h.db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if rev, err := h.replica().Sync(t.Context()); err != nil || rev.Status != "" {
		t.Errorf("%s, %v", statusOf(rev), err)
	}
	if s := h.source("fleet"); s.Applied.Revision == 0 || s.Latest.Revision == 0 {
		t.Errorf("%+v", s)
	}
}

// An open pull request is planned, and its forge is to show what it would do; a
// faulty one shows where. Nothing of either is applied.
func TestPullRequests(t *testing.T) {
	t.Parallel()
	h := setup(t)
	double, err := forge.New(t.Context(), forge.Config{Kind: forge.GitHub, Dir: t.TempDir(), Project: "acme/fleet", Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(double.ServeHTTP))
	t.Cleanup(server.Close)
	h.Credentials = secretreftest.Credentials(t, server.URL, map[string]string{"secret": "secret"})
	h.Reports = &gitopsforge.Reports{DB: h.Desired.DB}
	profile := names(fmt.Sprintf(`{name: fleet, repository: %q, dirs: [fleet], forge: {kind: github, url: %q, project: acme/fleet, tokenRef: "credential:secret"}}`, h.repo.url(), server.URL))
	base := with(skus(20, 35), "env.yaml", profile)
	h.repo.git("remote", "add", "origin", double.Repository())
	h.repo.commit(base)
	h.repo.git("push", "-q", "origin", "main")
	h.repo.git("checkout", "-q", "-b", "good")
	good := h.repo.commit(maps.Clone(without(base, "s001.yaml", "s002.yaml", "s003.yaml")))
	h.repo.git("checkout", "-q", "-b", "bad", "main")
	bad := h.repo.commit(with(base, "s001.yaml", "kind: [}"))
	h.repo.git("checkout", "-q", "main")
	h.repo.git("push", "-q", "origin", "good", "bad")
	h.point(double.Repository())
	first, err := double.Open(t.Context(), forge.Pull{From: "good", Into: "main", Title: "less", Author: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := double.Open(t.Context(), forge.Pull{From: "bad", Into: "main", Title: "oops", Author: "ada"}); err != nil {
		t.Fatal(err)
	}
	h.repo.git("checkout", "-q", "-b", "strange", "main")
	strange := h.repo.commit(with(base, "s099.yaml", sku("s099", 35)))
	h.repo.git("checkout", "-q", "main")
	h.repo.git("push", "-q", "origin", "strange")
	fork, err := double.Open(t.Context(), forge.Pull{From: "strange", Into: "main", Title: "from afar", Author: "eve", Fork: true})
	if err != nil {
		t.Fatal(err)
	}
	h.run(h.Syncer)
	h.until("both are validated", func() bool {
		return h.text(`SELECT count(*)::text FROM forge_reports WHERE subject LIKE 'pull/%'`) == "2"
	})
	if got := h.text(`SELECT count(*)::text FROM forge_reports WHERE subject = $1`, strange); got != "0" {
		t.Errorf("a pull request from a fork got %s reports", got)
	}
	h.decide(func(r *gitopssync.Rules, _ *preview.Rules) { r.Forks = true })
	h.until("the fork is previewed", func() bool {
		return h.text(`SELECT count(*)::text FROM forge_reports WHERE subject = $1`, fmt.Sprintf("pull/%d", fork)) == "1"
	})
	shown := h.text(`SELECT string_agg(body, E'\n') FROM forge_reports WHERE subject IN ($1, $2)`, strange, fmt.Sprintf("pull/%d", fork))
	if !strings.Contains(shown, "1 to create") || strings.Contains(shown, "s099") || strings.Contains(shown, "EUR") {
		t.Errorf("a stranger reads names or money:\n%s", shown)
	}
	for subject, want := range map[string]string{
		good: "gpuaas/plan success, gpuaas/policy success, gpuaas/validate success",
		bad:  "gpuaas/validate failure",
	} {
		if got := h.text(`SELECT coalesce(string_agg(context || ' ' || state, ', ' ORDER BY context), '') FROM forge_reports WHERE subject = $1`, subject); got != want {
			t.Errorf("%s shows %s", subject, got)
		}
	}
	merged := h.repo.commit(with(base, "s001.yaml", sku("s001", 36)))
	h.repo.git("push", "-q", "origin", "main")
	h.until("the merged one is reported", func() bool {
		return h.text(`SELECT count(*)::text FROM forge_reports WHERE subject = $1 AND state = 'success'`, merged) == "4"
	})
	comment := h.text(`SELECT body FROM forge_reports WHERE subject = $1`, fmt.Sprintf("pull/%d", first))
	if !strings.Contains(comment, "prune_cap") || !strings.Contains(comment, "3 to delete") {
		t.Error(comment)
	}
	if got := h.text(`SELECT status || ' ' || pull || ' ' || author FROM plans WHERE origin = 'change' AND commit = $1`, good); got != fmt.Sprintf("proposed %d ada@example.com", first) {
		t.Error(got)
	}
	if !strings.Contains(h.declared(), "s002 1") {
		t.Error(h.declared())
	}
}

// An object that is adopted by the API and back by Git is unchanged.
func TestAdoptRoundTrip(t *testing.T) {
	t.Parallel()
	h := setup(t)
	files := skus(2, 35)
	h.repo.commit(files)
	h.sync()
	generation := h.text(`SELECT string_agg(uid::text || generation, ' ' ORDER BY name) FROM desired_objects`)
	h.tx(func(tx pgx.Tx) error {
		o, err := h.people.Desired.AdoptToAPI(t.Context(), tx, desired.Name{Kind: desired.KindSKU, Name: "s001"}, 0)
		if err == nil && (o.Source.Owner != desired.OwnerAPI || o.Source.Path != "") {
			t.Errorf("%+v", o.Source)
		}
		return err
	})
	if rev := h.sync(); rev.Status != revision.StatusInvalid || codes(rev) != desired.CodeManagedByAPI || h.source("fleet").Conditions(time.Now())[0].Reason != "ValidationFailed" {
		t.Errorf("declared still: %s %v", statusOf(rev), rev.Findings)
	}
	h.repo.commit(without(files, "s001.yaml"))
	if rev := h.sync(); statusOf(rev) != "applied +0 ~0 -0" {
		t.Errorf("out of the files: %s %v", statusOf(rev), rev.Findings)
	}
	list, err := h.people.Desired.Export(t.Context(), []desired.Kind{desired.KindSKU}, desired.OwnerAPI, "")
	if err != nil || len(list) != 1 || list[0].Name != "s001" {
		t.Fatalf("%+v, %v", list, err)
	}
	h.put(list[0]) // as it was exported: nothing to write
	h.offer("s001", "fleet")
	h.repo.commit(files)
	if rev := h.sync(); statusOf(rev) != "applied +0 ~0 -0 adopted 1" {
		t.Errorf("back: %s %v", statusOf(rev), rev.Findings)
	}
	if got := h.text(`SELECT string_agg(uid::text || generation, ' ' ORDER BY name) FROM desired_objects`); got != generation {
		t.Errorf("%s, was %s", got, generation)
	}
}
