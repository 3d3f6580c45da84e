package rollout_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/agentrelease/rollout"
	"github.com/gpuaas/gpuaas/protocol"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	soak     = time.Minute
	patience = 30 * time.Minute
	linux    = "linux/amd64"
)

// fixture is a fleet on which plans are applied.
type fixture struct {
	in        rollout.Input
	sick      map[string]bool // builds that every node goes back from
	requested map[string]map[ids.Node]bool
}

func newFixture(nodes, percent int) *fixture {
	w := &fixture{
		in: rollout.Input{
			Now: noon, Percent: percent, Soak: soak, Patience: patience,
			Releases: map[rollout.Build]rollout.Release{},
		},
		sick: map[string]bool{}, requested: map[string]map[ids.Node]bool{},
	}
	for _, v := range []string{"v1.0.0", "v2.0.0", "v3.0.0"} {
		w.in.Releases[rollout.Build{Version: v, Platform: linux}] = rollout.Release{ExpiresAt: noon.Add(10000 * time.Hour)}
	}
	for i := range nodes {
		w.in.Nodes = append(w.in.Nodes, node(i))
	}
	return w
}

func node(i int) rollout.Node {
	id := ids.From[ids.Node](uuid.NewSHA1(uuid.Nil, fmt.Append(nil, i)))
	return rollout.Node{ID: id, Has: "v1.0.0", Wants: "v2.0.0", Platform: linux, Health: protocol.Healthy, Reachable: true}
}

func (w *fixture) node(id ids.Node) *rollout.Node {
	return &w.in.Nodes[slices.IndexFunc(w.in.Nodes, func(n rollout.Node) bool { return n.ID == id })]
}

func (w *fixture) row(id ids.Node, version string) *rollout.Row {
	i := slices.IndexFunc(w.in.Rows, func(r rollout.Row) bool { return r.Node == id && r.Version == version })
	if i < 0 {
		w.in.Rows = append(w.in.Rows, rollout.Row{Node: id, Version: version})
		i = len(w.in.Rows) - 1
	}
	return &w.in.Rows[i]
}

// carry applies the plan, as the job does.
func (w *fixture) carry(p rollout.Plan) {
	for _, m := range slices.Concat(p.Moves, p.Cancel) {
		r := w.row(m.Node, m.Version)
		r.Status, r.Message, r.UpdatedAt = m.Status, m.Message, w.in.Now
	}
	for _, m := range p.Delete {
		w.in.Rows = slices.DeleteFunc(w.in.Rows, func(r rollout.Row) bool { return r.Node == m.Node && r.Version == m.Version })
	}
	for _, a := range p.Requests {
		*w.row(a.Node, a.Build.Version) = rollout.Row{
			Node: a.Node, Version: a.Build.Version, Ring: a.Ring, Status: rollout.Requested, Before: a.Before, Deadline: w.in.Now.Add(5 * time.Minute), UpdatedAt: w.in.Now,
		}
	}
}

// work executes the task of every node that can.
func (w *fixture) work(fetches func(ids.Node) bool) {
	for i := range w.in.Rows {
		r := &w.in.Rows[i]
		if r.Status != rollout.Requested && r.Status != rollout.Running || r.Outcome != "" || !fetches(r.Node) {
			continue
		}
		if w.requested[r.Version] == nil {
			w.requested[r.Version] = map[ids.Node]bool{}
		}
		w.requested[r.Version][r.Node], r.Fetched = true, true
		if w.sick[r.Version] {
			r.Outcome, r.Code, r.Message = protocol.Failed, protocol.RolledBack, "no report was accepted"
			continue
		}
		r.Outcome, w.node(r.Node).Has = protocol.Succeeded, r.Version
	}
}

func always(ids.Node) bool { return true }

// tick computes one plan, applies it and executes its tasks.
func (w *fixture) tick(fetches func(ids.Node) bool) rollout.Plan {
	p := w.in.Plan()
	w.carry(p)
	w.work(fetches)
	w.in.Now = w.in.Now.Add(soak)
	return p
}

func (w *fixture) run(ticks int) (last rollout.Plan) {
	for range ticks {
		last = w.tick(always)
	}
	return last
}

// A hundred nodes go in rings of 5, 10, 20, 40 and the rest, none before its turn.
func TestRings(t *testing.T) {
	t.Parallel()
	w := newFixture(100, 5)
	var asks []int
	for range 30 {
		if p := w.tick(always); len(p.Requests) > 0 {
			asks = append(asks, len(p.Requests))
		}
	}
	last := w.in.Plan()
	if got := fmt.Sprint(asks); got != "[5 10 20 40 25]" || last.Versions[0].State != rollout.Done || last.Versions[0].Has != 100 {
		t.Errorf("requested %s: %+v", got, last.Versions)
	}
}

// INV-49: a version that every node goes back from is tried on the first ring.
func TestSickStopsInTheFirstRing(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 2, 10, 100} {
		w := newFixture(nodes, 5)
		w.sick["v2.0.0"] = true
		p := w.run(50)
		first := max(1, nodes*5/100)
		if v := p.Versions[0]; v.State != rollout.Stopped || v.Ring != 0 || len(w.requested["v2.0.0"]) > first || !strings.Contains(v.Message, "no report was accepted") {
			t.Errorf("%d nodes, %d requested: %+v", nodes, len(w.requested["v2.0.0"]), v)
		}
		// A person goes on with another version, and later tries this one again.
		w.sick["v2.0.0"] = false
		for _, version := range []string{"v3.0.0", "v2.0.0"} {
			for i := range w.in.Nodes {
				w.in.Nodes[i].Wants = version
			}
			if p = w.run(40); p.Versions[0].State != rollout.Done {
				t.Errorf("%d nodes: %+v", nodes, p.Versions[0])
			}
		}
	}
}

// One node that is lost of many does not stop a version; the second does.
func TestBreaker(t *testing.T) {
	t.Parallel()
	for lost, want := range map[int]rollout.State{0: rollout.Rolling, 1: rollout.Rolling, 2: rollout.Stopped} {
		w := newFixture(100, 5)
		w.tick(always)
		for i := range lost {
			r := &w.in.Rows[i]
			r.Outcome, r.Code, w.node(r.Node).Has = protocol.Failed, protocol.RolledBack, "v1.0.0"
		}
		p := w.run(3)
		if v := p.Versions[0]; v.State != want || (v.Ring > 0) != (want == rollout.Rolling) {
			t.Errorf("%d lost: %+v", lost, v)
		}
	}
}

// The status after a task was sent: healthy needs the result of the task and a report, and a task that
// was not fetched counts for nothing.
func TestRowStatus(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*fixture, *rollout.Row, *rollout.Node)
		want   rollout.Status
	}{
		"nothing heard":      {func(*fixture, *rollout.Row, *rollout.Node) {}, rollout.Requested},
		"fetched":            {func(_ *fixture, r *rollout.Row, _ *rollout.Node) { r.Fetched = true }, rollout.Running},
		"done, and reported": {func(_ *fixture, r *rollout.Row, n *rollout.Node) { r.Outcome, n.Has = protocol.Succeeded, "v2.0.0" }, rollout.Healthy},
		"done, not reported": {func(_ *fixture, r *rollout.Row, _ *rollout.Node) { r.Fetched, r.Outcome = true, protocol.Succeeded }, rollout.Running},
		"reported, not done": {func(_ *fixture, r *rollout.Row, n *rollout.Node) { r.Fetched, n.Has = true, "v2.0.0" }, rollout.Running},
		"reported, and sicker": {func(_ *fixture, r *rollout.Row, n *rollout.Node) {
			r.Fetched, r.Outcome, n.Has, n.Health = true, protocol.Succeeded, "v2.0.0", protocol.Degraded
		}, rollout.Running},
		"sicker for too long": {func(w *fixture, r *rollout.Row, n *rollout.Node) {
			r.Fetched, r.Outcome, n.Has, n.Health = true, protocol.Succeeded, "v2.0.0", protocol.Degraded
			w.late()
		}, rollout.Failed},
		"gone back": {func(_ *fixture, r *rollout.Row, _ *rollout.Node) {
			r.Outcome, r.Code = protocol.Failed, protocol.RolledBack
		}, rollout.RolledBack},
		"refused": {func(_ *fixture, r *rollout.Row, _ *rollout.Node) {
			r.Outcome, r.Code = protocol.Rejected, protocol.DigestMismatch
		}, rollout.Failed},
		"rejected as too late": {func(_ *fixture, r *rollout.Row, _ *rollout.Node) {
			r.Outcome, r.Code = protocol.Rejected, protocol.Expired
		}, rollout.Waiting},
		"lapsed":               {func(_ *fixture, r *rollout.Row, _ *rollout.Node) { r.Lapsed = true }, rollout.Waiting},
		"never fetched":        {func(w *fixture, _ *rollout.Row, _ *rollout.Node) { w.late() }, rollout.Waiting},
		"fetched, then silent": {func(w *fixture, r *rollout.Row, n *rollout.Node) { r.Fetched, n.Reachable = true, false; w.late() }, rollout.Failed},
		"done, but the report is stale": {func(_ *fixture, r *rollout.Row, n *rollout.Node) {
			r.Fetched, r.Outcome, n.Has, n.Reachable = true, protocol.Succeeded, "v2.0.0", false
		}, rollout.Running},
		"failed, and healthy after all":  {func(_ *fixture, r *rollout.Row, n *rollout.Node) { r.Status, n.Has = rollout.Failed, "v2.0.0" }, rollout.Healthy},
		"healthy stays, whatever it has": {func(_ *fixture, r *rollout.Row, _ *rollout.Node) { r.Status = rollout.Healthy }, rollout.Healthy},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(1, 5)
			w.carry(w.in.Plan())
			c.change(w, &w.in.Rows[0], &w.in.Nodes[0])
			w.carry(rollout.Plan{Moves: w.in.Plan().Moves})
			if got := w.in.Rows[0].Status; got != c.want {
				t.Errorf("%s, want %s: %s", got, c.want, w.in.Rows[0].Message)
			}
		})
	}
}

func (w *fixture) late() { w.in.Now = w.in.Now.Add(time.Hour) }

// A node that is stale, unhealthy or has a hold receives no task, does not delay the others, and is
// updated once it is ready.
func TestWaits(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*rollout.Node, bool){
		"silent": func(n *rollout.Node, yes bool) { n.Reachable = !yes },
		"held":   func(n *rollout.Node, yes bool) { n.Held = yes },
		"sick": func(n *rollout.Node, yes bool) {
			n.Health = map[bool]protocol.Health{true: protocol.Unhealthy, false: protocol.Healthy}[yes]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newFixture(20, 5)
			for i := range 5 {
				away(&w.in.Nodes[i], true)
			}
			p := w.run(40)
			if v := p.Versions[0]; v.State != rollout.Rolling || v.Has != 15 || !strings.Contains(v.Message, "5 nodes wait") {
				t.Errorf("%+v", v)
			}
			for i := range 5 {
				away(&w.in.Nodes[i], false)
			}
			if p = w.run(40); p.Versions[0].State != rollout.Done {
				t.Errorf("%+v", p.Versions[0])
			}
		})
	}
}

// A ring is not proved by a node that falls silent, or sicker, after it was healthy.
func TestSoak(t *testing.T) {
	t.Parallel()
	for name, fall := range map[string]func(*rollout.Node){
		"silent": func(n *rollout.Node) { n.Reachable = false },
		"sicker": func(n *rollout.Node) { n.Health = protocol.Degraded },
		"old":    func(n *rollout.Node) { n.Has = "v1.0.0" },
	} {
		w := newFixture(20, 5)
		w.tick(always)
		w.carry(w.in.Plan()) // healthy
		fall(w.node(w.in.Rows[0].Node))
		for range 60 {
			w.tick(always)
		}
		if p := w.in.Plan(); len(w.in.Rows) != 1 || p.Versions[0].State != rollout.Stopped {
			t.Errorf("%s: %d requested, %+v", name, len(w.in.Rows), p.Versions[0])
		}
	}
}

// A version that is not published, has expired, or is older than the node allows is reported as blocked
// and not sent.
func TestBlocked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*fixture)
		says   string
	}{
		"release it": {func(w *fixture) { delete(w.in.Releases, rollout.Build{Version: "v2.0.0", Platform: linux}) }, "release v2.0.0 is not published for linux/amd64"},
		"expired":    {func(w *fixture) { w.in.Now = noon.Add(20000 * time.Hour) }, "expired at"},
		"below the minimum": {func(w *fixture) {
			w.in.Releases[rollout.Build{Version: "v1.0.0", Platform: linux}] = rollout.Release{Minimum: "v3.0.0"}
		}, "v1.0.0 goes back to v3.0.0 at the lowest"},
	} {
		w := newFixture(3, 5)
		c.change(w)
		if p := w.in.Plan(); len(p.Requests) > 0 || p.Versions[0].State != rollout.Blocked || !strings.Contains(p.Versions[0].Message, c.says) {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// A task that no node has fetched is cancelled when its version is no longer desired or was stopped. A
// task that was fetched ends first.
func TestCallOff(t *testing.T) {
	t.Parallel()
	w := newFixture(100, 5)
	w.carry(w.in.Plan())
	w.in.Rows[0].Fetched = true
	for i := range w.in.Nodes {
		w.in.Nodes[i].Wants = "v3.0.0"
	}
	p := w.in.Plan()
	if len(p.Cancel) != 4 || slices.ContainsFunc(p.Requests, func(a rollout.UpdateRequest) bool { return a.Node == w.in.Rows[0].Node }) {
		t.Errorf("%+v", p)
	}
	w = newFixture(100, 5)
	w.carry(w.in.Plan())
	for i := range 2 {
		w.in.Rows[i].Outcome, w.in.Rows[i].Code = protocol.Failed, protocol.RolledBack
	}
	if p := w.in.Plan(); len(p.Cancel) != 3 || p.Versions[0].State != rollout.Stopped {
		t.Errorf("%+v", p)
	}
}

// Agents that are no program of their own receive no task, and do not enlarge a ring.
func TestPlatformUnknown(t *testing.T) {
	t.Parallel()
	w := newFixture(100, 5)
	for i := range 98 {
		w.in.Nodes[i].Platform = ""
	}
	if p := w.in.Plan(); len(p.Requests) != 1 {
		t.Errorf("%+v", p.Requests)
	}
}

// INV-49: over random fleets, a ring at a time and one version for a node; a sick
// version touches no more nodes than its first ring has; a good one arrives.
func TestINV49RandomFleets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		nodes, percent := rapid.IntRange(1, 60).Draw(t, "nodes"), rapid.IntRange(1, 60).Draw(t, "percent")
		w := newFixture(nodes, percent)
		first := max(1, nodes*percent/100)
		for _, v := range []string{"v2.0.0", "v3.0.0"} {
			w.sick[v] = rapid.Bool().Draw(t, "sick "+v)
		}
		for range rapid.IntRange(1, 30).Draw(t, "ticks") {
			for i := range w.in.Nodes {
				n := &w.in.Nodes[i]
				n.Reachable, n.Held = rapid.IntRange(0, 9).Draw(t, "reachable") > 0, rapid.IntRange(0, 9).Draw(t, "held") == 0
				if rapid.IntRange(0, 99).Draw(t, "wants") == 0 {
					n.Wants = "v3.0.0"
				}
			}
			p := w.in.Plan()
			valid(t, w, p)
			w.carry(p)
			w.work(func(id ids.Node) bool { return w.node(id).Reachable && rapid.IntRange(0, 3).Draw(t, "fetches") > 0 })
			w.in.Now = w.in.Now.Add(rapid.SampledFrom([]time.Duration{10 * time.Second, soak, 6 * time.Minute}).Draw(t, "later"))
		}
		for v, sick := range w.sick {
			if n := len(w.requested[v]); sick && n > first {
				t.Fatalf("%s is sick and reached %d nodes; its first ring has %d", v, n, first)
			}
		}
		for i := range w.in.Nodes {
			n := &w.in.Nodes[i]
			n.Reachable, n.Held, n.Wants = true, false, "v9.0.0"
		}
		w.in.Releases[rollout.Build{Version: "v9.0.0", Platform: linux}] = rollout.Release{ExpiresAt: w.in.Now.Add(1000 * time.Hour)}
		if p := w.run(60); p.Versions[0].State != rollout.Done {
			t.Fatalf("a good version does not arrive: %+v", p.Versions[0])
		}
	})
}

// valid checks the properties of every plan.
func valid(t *rapid.T, w *fixture, p rollout.Plan) {
	going, rings := map[ids.Node]int{}, map[string]map[int]int{}
	count := func(id ids.Node, version string, ring int) {
		going[id]++
		if rings[version] == nil {
			rings[version] = map[int]int{}
		}
		rings[version][ring]++
	}
	status := map[string]rollout.Status{}
	for _, m := range slices.Concat(p.Moves, p.Cancel) {
		status[m.Node.String()+m.Version] = m.Status
	}
	for _, r := range w.in.Rows {
		s := r.Status
		if moved, ok := status[r.Node.String()+r.Version]; ok {
			s = moved
		}
		if s == rollout.Requested || s == rollout.Running {
			count(r.Node, r.Version, r.Ring)
		}
	}
	for _, a := range p.Requests {
		count(a.Node, a.Build.Version, a.Ring)
		if n := w.node(a.Node); n.Held || !n.Reachable || n.Wants != a.Build.Version {
			t.Fatalf("requested of %+v", *n)
		}
	}
	for id, n := range going {
		if n > 1 {
			t.Fatalf("%d versions are requested of %s", n, id)
		}
	}
	for v, of := range rings {
		if len(of) > 1 {
			t.Fatalf("%s goes on in rings %v at once", v, of)
		}
		for ring, n := range of {
			if most := max(1, len(w.in.Nodes)*w.in.Percent/100) << ring; n > most {
				t.Fatalf("%d nodes of ring %d of %s, at most %d", n, ring, v, most)
			}
		}
	}
	rand.Shuffle(len(w.in.Nodes), func(i, j int) { w.in.Nodes[i], w.in.Nodes[j] = w.in.Nodes[j], w.in.Nodes[i] })
	if again := w.in.Plan(); !reflect.DeepEqual(again.Requests, p.Requests) {
		t.Fatal("another sequence of the same nodes gives another plan")
	}
}
