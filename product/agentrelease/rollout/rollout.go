// Package rollout plans which nodes are updated to another build of the agent now. It is pure: its input
// is the fleet, the existing update tasks and the time, and its result is a plan.
//
// A version is rolled out in rings. The first ring is a small share of the nodes that should run the
// version, and each later one is twice as large. A ring starts when the previous one has proved itself:
// every node of it reports the version, as healthy as before, for a while. If too many nodes of a ring
// roll back or become stale, the version stops until an operator decides. A node that is stale,
// unhealthy or has a hold waits, and does not delay the others.
package rollout

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// Node is one node of the fleet.
type Node struct {
	ID        ids.Node
	Wants     string // declared; empty: as it is
	Has       string // as last reported
	Platform  string // linux/amd64; empty where the agent does not replace itself
	Health    protocol.Health
	Held      bool
	Reachable bool
}

// Status of one node on its way to one version.
type Status string

// The states of a row.
const (
	Waiting    Status = "waiting" // the task was cancelled or never fetched
	Requested  Status = "requested"
	Running    Status = "running"
	Healthy    Status = "healthy"
	RolledBack Status = "rolled_back"
	Failed     Status = "failed"
)

func (s Status) underWay() bool { return s == Requested || s == Running }
func (s Status) lost() bool     { return s == RolledBack || s == Failed }

// Row is the update task of a node and its result.
type Row struct {
	Node      ids.Node
	Version   string
	Ring      int
	Status    Status
	Before    protocol.Health // of the node, when its task was created
	Deadline  time.Time
	UpdatedAt time.Time // when it got its status

	Fetched bool             // the node has the task
	Lapsed  bool             // the task ended without having been worked on
	Outcome protocol.Outcome // of the task; empty while it has none
	Code    protocol.RejectReason
	Message string
}

// Release is a release that may be rolled out.
type Release struct {
	Minimum   string
	ExpiresAt time.Time
}

// Build names a release.
type Build struct{ Version, Platform string }

// Input contains everything that a plan depends on.
type Input struct {
	Nodes    []Node
	Rows     []Row
	Releases map[Build]Release
	Now      time.Time
	Percent  int           // of the nodes that want a version, in its first ring
	Soak     time.Duration // for which a ring must have been healthy
	// Patience is the time for which a formerly healthy node with a stale report may delay its ring.
	// After it the node counts as lost.
	Patience time.Duration
}

// UpdateRequest is a node that receives an update task now.
type UpdateRequest struct {
	Node     ids.Node
	Build    Build
	Previous string
	Ring     int
	Before   protocol.Health
}

// Move is a row that gets another status.
type Move struct {
	Node    ids.Node
	Version string
	Status  Status
	Message string
}

// Plan is the answer.
type Plan struct {
	Moves  []Move
	Cancel []Move // cancel the task first; a node that has fetched it stays unchanged
	// Delete lists finished rows of versions that no node should run any more. If such a version is
	// desired again, it is tried again.
	Delete   []Move
	Requests []UpdateRequest
	Versions []Version
}

// State of a version.
type State string

// A version is in one of these.
const (
	Rolling State = "rolling"
	Done    State = "done"    // every node that can have it has it
	Stopped State = "stopped" // a person decides
	Blocked State = "blocked" // it is not published, or it expired
)

// Version is the progress of a version that at least one node should run.
type Version struct {
	Version string
	State   State
	Ring    int // the one under way
	Nodes   int // that want it
	Has     int
	Going   int
	Lost    int
	Message string
}

// ringState is that of a version which is under way.
type ringState struct {
	number, size         int
	going, whole, unripe int // with a task, proved, and not proved for long enough
	lost                 int
	why                  string
}

// allowed returns the number of nodes of a ring that may be lost before the version is stopped.
func (r ringState) allowed() int { return max(1, r.size/10) } //nolint:mnd // a tenth

// sick returns the reason why the version must stop.
func (r ringState) sick() string {
	if r.lost > r.allowed() || r.lost > 0 && r.going+r.whole+r.unripe == 0 {
		return fmt.Sprintf("%d of %d nodes of ring %d were lost: %s", r.lost, r.lost+r.going+r.whole+r.unripe, r.number, r.why)
	}
	return ""
}

// Plan returns the plan. It does not depend on the sequence of the input.
func (in Input) Plan() Plan {
	p := Plan{}
	rows := in.updateRows(&p)
	byNode := map[ids.Node][]Row{}
	for _, r := range rows {
		byNode[r.Node] = append(byNode[r.Node], r)
	}
	want := map[string][]Node{}
	wants := map[ids.Node]string{}
	for _, n := range in.Nodes {
		wants[n.ID] = n.Wants
		if n.Wants != "" {
			want[n.Wants] = append(want[n.Wants], n)
		}
	}
	for _, r := range rows {
		move := Move{Node: r.Node, Version: r.Version, Status: Waiting, Message: "no longer wanted"}
		switch {
		case wants[r.Node] == r.Version:
		case r.Status.underWay() && !r.Fetched:
			p.Cancel = append(p.Cancel, move)
		case !r.Status.underWay() && r.Status != Healthy && len(want[r.Version]) == 0:
			p.Delete = append(p.Delete, move)
		}
	}
	for _, version := range sorted(want) {
		in.version(&p, version, want[version], rows, byNode)
	}
	return p
}

// version decides about one version and the nodes that want it.
func (in Input) version(p *Plan, version string, nodes []Node, all []Row, rows map[ids.Node][]Row) {
	v := Version{Version: version, State: Rolling, Nodes: len(nodes)}
	defer func() { p.Versions = append(p.Versions, v) }()
	r := in.underWay(version, nodes, all)
	v.Ring = r.number
	var ready []Node
	var left, unreleased int
	var blocked string
	for _, n := range nodes {
		own := rowOf(rows[n.ID], version)
		switch {
		case n.Has == version && !own.Status.underWay():
			v.Has++
		case own.Status.underWay():
			v.Going++
		case own.Status.lost():
			v.Lost++
		default:
			left++
			why := in.blocked(n, version)
			if why != "" {
				unreleased++
				blocked = cmp.Or(blocked, why)
			} else if able(n) && !slices.ContainsFunc(rows[n.ID], func(r Row) bool { return r.Status.underWay() }) {
				ready = append(ready, n)
			}
		}
	}
	switch why := r.sick(); {
	case why != "":
		v.State, v.Message = Stopped, why
		for _, n := range nodes {
			if own := rowOf(rows[n.ID], version); own.Status.underWay() && !own.Fetched {
				p.Cancel = append(p.Cancel, Move{Node: n.ID, Version: version, Status: Waiting, Message: "the version was stopped"})
			}
		}
		return
	case unreleased > 0:
		v.State, v.Message = Blocked, fmt.Sprintf("%d nodes cannot become it: %s", unreleased, blocked)
	case left == 0 && v.Going == 0:
		v.State = Done
		return
	case left > len(ready):
		v.Message = fmt.Sprintf("%d nodes wait because they do not report, have a hold, are unhealthy, or run another update", left-len(ready))
	}
	sortByHash(ready, version)
	room := r.size - r.going - r.whole - r.unripe - r.lost
	if room <= 0 {
		if r.going > 0 || r.unripe > 0 || r.whole == 0 {
			return // the ring has still to prove itself
		}
		r.number++
		room = size(replacing(nodes), in.Percent, r.number)
	}
	v.Ring = r.number
	for _, n := range ready[:min(max(room, 0), len(ready))] {
		p.Requests = append(p.Requests, UpdateRequest{n.ID, Build{version, n.Platform}, n.Has, r.number, n.Health})
		v.Going++
	}
}

// underWay counts the highest ring with tasks. A lost node counts even if it should run another version
// by now, because its failure concerns the version.
func (in Input) underWay(version string, nodes []Node, rows []Row) ringState {
	own := slices.DeleteFunc(slices.Clone(rows), func(r Row) bool { return r.Version != version || r.Status == Waiting })
	slices.SortFunc(own, func(a, b Row) int { return bytes.Compare(a.Node.UUID[:], b.Node.UUID[:]) })
	wanting := map[ids.Node]Node{}
	for _, n := range nodes {
		wanting[n.ID] = n
	}
	var r ringState
	for _, row := range own {
		r.number = max(r.number, row.Ring)
	}
	r.size = size(replacing(nodes), in.Percent, r.number)
	for _, row := range own {
		n, wants := wanting[row.Node]
		switch {
		case row.Ring != r.number:
		case row.Status.underWay():
			r.going++
		case row.Status.lost():
			r.lose(row.Message)
		case wants:
			in.proof(&r, n, row)
		}
	}
	return r
}

// proof counts a node of the ring that was healthy once.
func (in Input) proof(r *ringState, n Node, own Row) {
	age := in.Now.Sub(own.UpdatedAt)
	switch {
	case n.Reachable && n.Has != own.Version:
		r.lose("it reports " + n.Has + " again")
	case n.Reachable && grade(n.Health) > grade(own.Before):
		r.lose("it is " + string(n.Health) + " and was " + string(own.Before))
	case n.Reachable && age >= in.Soak:
		r.whole++
	case !n.Reachable && age > in.Patience:
		r.lose("the node stopped reporting after the update")
	default:
		r.unripe++
	}
}

func (r *ringState) lose(why string) {
	r.lost++
	r.why = cmp.Or(r.why, why)
}

// size of a ring: the first a share of all, at least one, and then twice as many.
func size(nodes, percent, number int) int {
	first := max(1, nodes*percent/100) //nolint:mnd // percent
	const most = 30                    // no fleet has 2^30 nodes
	return min(first<<min(number, most), max(1, nodes))
}

// replacing counts the nodes whose agent replaces itself.
func replacing(nodes []Node) (n int) {
	for _, node := range nodes {
		if node.Platform != "" {
			n++
		}
	}
	return n
}

// able reports whether a node may be updated now.
func able(n Node) bool {
	return n.Reachable && !n.Held && grade(n.Health) <= grade(protocol.Degraded) && n.Platform != ""
}

// blocked returns the reason why a node cannot run a version at present.
func (in Input) blocked(n Node, version string) string {
	if n.Platform == "" {
		return "" // nothing of it is known yet, or its agent is no program of its own
	}
	release, ok := in.Releases[Build{version, n.Platform}]
	has, known := in.Releases[Build{n.Has, n.Platform}]
	switch {
	case !ok:
		return "release " + version + " is not published for " + n.Platform
	case !in.Now.Before(release.ExpiresAt):
		return "its release for " + n.Platform + " expired at " + release.ExpiresAt.Format(time.RFC3339)
	case known && !protocol.AtLeast(version, has.Minimum):
		return n.Has + " goes back to " + has.Minimum + " at the lowest"
	}
	return ""
}

// grade sorts health from good to bad. A node that reports no health is trusted less than one with an
// unhealthy device.
func grade(h protocol.Health) int {
	return slices.Index([]protocol.Health{protocol.Healthy, protocol.Degraded, protocol.Unknown, protocol.Unhealthy}, h)
}

func rowOf(rows []Row, version string) Row {
	if i := slices.IndexFunc(rows, func(r Row) bool { return r.Version == version }); i >= 0 {
		return rows[i]
	}
	return Row{}
}

// sortByHash sorts nodes the same way each time and another way for each version, so that different
// nodes go first.
func sortByHash(nodes []Node, version string) {
	place := make(map[ids.Node][sha256.Size]byte, len(nodes))
	for _, n := range nodes {
		place[n.ID] = sha256.Sum256(append([]byte(version), n.ID.UUID[:]...))
	}
	slices.SortFunc(nodes, func(a, b Node) int {
		x, y := place[a.ID], place[b.ID]
		return bytes.Compare(x[:], y[:])
	})
}

func sorted(of map[string][]Node) []string {
	var list []string
	for v := range of {
		list = append(list, v)
	}
	slices.Sort(list)
	return list
}
