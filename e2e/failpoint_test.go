//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/e2e/check"
	"github.com/gpuaas/gpuaas/internal/durable"
	"github.com/gpuaas/gpuaas/internal/failpoint"
)

// crash is a point, the hit of it that kills, and the moment from which hits count.
type crash struct {
	point string
	hit   int
	when  moment
}

type moment string

const (
	first   moment = "first start" // of a new installation
	during  moment = "allocation"  // between the request and the proof of its end
	charge  moment = "charge"      // of an allocation that has been active for a while
	commits moment = "commit"      // to the repository that is followed
	tenancy moment = "tenancy"     // a project is made
	decides moment = "plan"        // of files is requested and applied through the API
	waits   moment = "queue"       // a freed slot goes to a request that waits for it
)

func (c crash) String() string { return fmt.Sprintf("%s:%d at %s", c.point, c.hit, c.when) }

// points are all failpoints of the product, or those whose name contains E2E_POINT, for a developer who
// examines one of them.
func points() []string {
	only := os.Getenv("E2E_POINT")
	return slices.DeleteFunc(slices.Clone(failpoint.Points), func(p string) bool {
		return !strings.Contains(p, only) || slices.ContainsFunc(elsewhere, func(prefix string) bool { return strings.HasPrefix(p, prefix) })
	})
}

// elsewhere are failpoints at which other tests kill: payments and top-ups in package jobs, over the
// provider in process; the agent's update in agent/update, over its own disk, because no simulated
// node replaces its agent; a task about the node in package agent, because no scenario here queues
// one; sealing again in platform/identity, because no data key is rotated here; and consumers in
// platform/event/consume, over a stream without a relay; e-mails and webhooks in package jobs; and
// terminals in failpoint_terminal_test.go, under open sessions; files in package product/storage; evidence in package jobs,
// because several bundles are built at the same time here, and the others die before their commit; and restores in
// package product/recovery.
var elsewhere = []string{"payment.", "job.payment_", "topup.", "agent.update.", "agent.node.", "identity.reseal.", "consume.", "mail.", "webhook.", "job.webhook.", "terminal.", "storage.", "job.evidence.", "recovery."}

// crashes are all points, some of them at later hits and other moments too: a
// crash in the second record job is not one in the first.
func crashes() (list []crash) {
	later := map[string][]int{
		"loop.pass.before_commit": {2, 3, 4}, "loop.pass.after_commit": {2, 3, 4}, "job.record.before_commit": {2}, "job.record.after_commit": {2},
		"nodeapi.report.before_commit": {2, 3}, "nodeapi.report.after_commit": {2, 3}, "nodeapi.result.after_commit": {2},
		"relay.after_publish": {2, 3}, "relay.after_position": {2, 3}, "agent.task.before_journal": {2}, "agent.task.after_journal": {2},
		"agent.step.before_do": {2, 3, 4, 5}, "agent.step.after_do": {2, 3, 4, 5}, "agent.task.before_result": {2}, "agent.task.after_result": {2},
	}
	for _, p := range points() {
		switch {
		case strings.HasPrefix(p, "identity.change."):
			list = append(list, crash{p, 1, tenancy})
		case strings.HasPrefix(p, "change.apply."):
			list = append(list, crash{p, 1, decides}, crash{p, 2, decides}) // the plan is stored, and is applied
		case strings.HasPrefix(p, "allocation.place."):
			list = append(list, crash{p, 1, waits})
		case strings.HasPrefix(p, "runway."):
			list = append(list, crash{p, 1, charge})
		case strings.HasPrefix(p, "job.accrue."), strings.HasPrefix(p, "metering.cut."):
			list = append(list, crash{p, 1, first}, crash{p, 1, charge})
		case strings.HasPrefix(p, "git.apply."):
			list = append(list, crash{p, 1, first}, crash{p, 1, commits})
		case strings.HasPrefix(p, "job.object."):
			list = append(list, crash{p, 1, first}, crash{p, 2, first}, crash{p, 1, commits})
		case strings.HasPrefix(p, "loop.pass."), strings.HasPrefix(p, "nodeapi.report."):
			list = append(list, crash{p, 1, first}, crash{p, 1, during})
		default:
			list = append(list, crash{p, 1, during})
		}
		for _, n := range later[p] {
			list = append(list, crash{p, n, during})
		}
	}
	return list
}

// lanes are installations that run in parallel; each runs the next crash.
const lanes = 3

// TestINV05EveryFailpoint kills the process that reaches a failpoint, starts it again, and requires the
// end state of an undisturbed installation. Each crash is a subtest that can be run by itself.
func TestINV05EveryFailpoint(t *testing.T) {
	t.Parallel()
	queue := make(chan crash)
	var mu sync.Mutex
	fired := map[string]int{}
	var all sync.WaitGroup
	for range lanes {
		all.Go(func() {
			l := &track{t: t}
			for c := range queue {
				if c.when == first {
					l.rests()
				}
				if t.Run(c.String(), func(t *testing.T) { l.suffer(t, c) }) {
					mu.Lock()
					fired[c.point]++
					mu.Unlock()
				} else {
					l.leave() // its remains must not be checked again
				}
			}
			l.rests()
		})
	}
	for _, c := range crashes() {
		queue <- c
	}
	close(queue)
	all.Wait()
	for _, p := range points() {
		if fired[p] == 0 {
			t.Errorf("%s was never reached and survived", p)
		}
	}
	t.Logf("%d points, %d reached and survived", len(points()), len(fired))
}

// track is one installation that suffers one crash after another, so that each
// also meets what the ones before have left.
type track struct {
	t            *testing.T
	installation *installation
	begun        crash // that the installation suffered first
}

// rests checks the installation at its end. The check covers all that it
// has suffered: when it is bad, no crash alone shows it again.
func (l *track) rests() {
	if l.installation != nil {
		l.t.Run("rest after "+l.begun.String(), func(t *testing.T) { l.rest(t) })
	}
	l.leave()
}

func (l *track) leave() {
	if l.installation != nil {
		l.installation.kill()
	}
	l.installation = nil
}

func (l *track) suffer(t *testing.T, c crash) {
	if l.installation == nil {
		l.installation, l.begun = newInstallation(l.t, "--agents=processes"), c
		l.installation.unlimited(t)
	}
	h := l.installation
	h.t = t
	var hits string
	switch c.when {
	case first:
		hits = h.arm(c)
		h.begin()
		l.fires(t, c, hits)
		<-h.ended
		scenario(t, h)
	case during:
		h.revive()
		hits = h.arm(c)
		done := watch(t, h)
		scenario(t, h)
		done()
	case tenancy:
		h.revive()
		hits = h.arm(c)
		h.makesOneProject(t)
	case decides:
		h.revive()
		hits = h.arm(c)
		h.appliesOnePlan(t)
	case waits:
		h.revive()
		holds := h.create(t, "h100-sxm", 8)
		h.becomes(t, holds, "active")
		waiting := h.queue(t, "h100-sxm", 8)
		hits = h.arm(c)
		h.release(t, holds)
		if h.becomes(t, waiting, "active") {
			h.release(t, waiting)
			h.becomes(t, waiting, "released")
		}
	case charge:
		h.revive()
		a := h.create(t, "h100-sxm", 8)
		h.becomes(t, a, "active")
		time.Sleep(3 * time.Second) // of use: there is something to charge
		h.stop()
		hits = h.arm(c)
		h.begin()
		l.fires(t, c, hits)
		<-h.ended
		h.release(t, a)
		h.becomes(t, a, "released")
	case commits:
		h.revive()
		hits = h.arm(c)
		file := filepath.Join(h.repo, "environments", "dev", "policies.cue")
		extra := fmt.Sprintf("\n\t_policy & {\n\t\tmetadata: name: \"extra-%d\"\n\t\tspec: {key: \"allocation.release_attempts\", value: 7}\n\t},", h.starts)
		edit(t, file, "policies: [", "policies: ["+extra)
		commit(t, h.repo, "another policy")
		h.syncSources()
		l.fires(t, c, hits)
		<-h.ended
		scenario(t, h)
		edit(t, file, extra, "")
		h.syncSources()
	}
	l.fires(t, c, hits)
	h.converges(t, patience, check.Expect{})
	// When a revision is applied others of its kind run at the same time, and die as
	// they should.
	if what, ok := strings.CutPrefix(c.point, "job."); ok && strings.HasSuffix(what, ".after_commit") && (c.when == during || c.when == charge) {
		l.ended(t, strings.TrimSuffix(what, ".after_commit"))
	}
}

// ended: a job whose effect is committed has ended with it, so a crash after the
// commit leaves none that runs.
func (l *track) ended(t *testing.T, kind string) {
	t.Helper()
	db, err := l.installation.sql(t.Context())
	must(t, err)
	defer db.Close(t.Context())
	var left []string
	// Begun between this crash's start and the start after it: by the one that died. On a busy computer the record of a stale
	// node may run at the same time, and dies before its commit.
	must(t, db.QueryRow(t.Context(), `SELECT coalesce(array_agg(kind || ' ' || args::text), '{}') FROM river.river_job
		WHERE state = 'running' AND kind LIKE '%' || $3 || '%' AND args->>'event' IS DISTINCT FROM 'reports_stale' AND attempted_at BETWEEN $1 AND $2`, l.installation.before, l.installation.since, kind).Scan(&left))
	if len(left) > 0 {
		t.Errorf("INV-20 a job ends with its effect: %v", left)
	}
}

// arm arms the point of a crash in all processes of the installation, and returns the file of its hits. A start that only
// arms a point would need more time than the crash.
func (h *installation) arm(c crash) (hits string) {
	h.t.Helper()
	h.armed++
	hits = h.path(fmt.Sprintf("hits-%d", h.armed))
	must(h.t, durable.Write(h.path("failpoint"), fmt.Appendf(nil, "%s:%d %s\n", c.point, c.hit, hits), 0o600))
	return hits
}

// fires waits until the point has killed.
func (l *track) fires(t *testing.T, c crash, hits string) {
	t.Helper()
	if !until(t, patience, c.String()+" fires", func() error {
		text, err := os.ReadFile(hits)
		if err == nil && string(text) != c.point+"\n" {
			err = fmt.Errorf("the log of hits is %q", text)
		}
		return err
	}) {
		t.FailNow()
	}
}

// rest checks what is only true after every window was charged, and that the event streams contain the
// outbox.
func (l *track) rest(t *testing.T) {
	t.Helper()
	h := l.installation
	h.t = t
	h.stop() // and the next start charges at once
	h.start()
	h.converges(t, patience, check.Expect{Rested: true})
	delivered(t, h)
}

// scenario creates and releases an allocation while the crash happens.
func scenario(t *testing.T, h *installation) {
	t.Helper()
	a := h.create(t, "t4", 2)
	if h.becomes(t, a, "active") {
		h.release(t, a)
		h.becomes(t, a, "released")
	}
}

// watch checks continuously the rules that are true at every instant.
func watch(t *testing.T, h *installation) (stop func()) {
	t.Helper()
	quit, over := make(chan struct{}), make(chan struct{})
	nodes := check.Watcher{Agents: h.agents()}
	go func() {
		defer close(over)
		for {
			select {
			case <-quit:
				return
			case <-time.After(2 * time.Millisecond):
			}
			found, err := nodes.Unjournalled()
			if err != nil || len(found) > 0 {
				t.Errorf("%v %v", found, err)
				return
			}
		}
	}()
	return func() { close(quit); <-over }
}
