package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/protocol"
)

// State of an allocation, in the words of the room that owns the machine.
type State string

// The states that planning tells apart; released and failed need no look.
const (
	Requested     State = "requested"
	Provisioning  State = "provisioning"
	Active        State = "active"
	Releasing     State = "releasing"
	Released      State = "released"
	Failed        State = "failed"
	ReleaseFailed State = "release_failed"
)

// Want is what is declared of an allocation.
type Want struct {
	Name       string
	Node       ids.Node
	Generation int64
	Fence      int64
	Epoch      int64
	SpecHash   string
	Slots      []string
	Released   bool
	Suspended  *Suspension
	// Drift and Ignore are its annotations of these.
	Drift, Ignore string
}

// Have is what its host last reported.
type Have struct {
	Node     ids.Node
	Phase    protocol.Phase
	Fence    int64
	SpecHash string
	Message  string
	Proven   bool      // gone, and the host's own scan found nothing left
	Complete bool      // the report it stands in was whole
	StaleAt  time.Time // when that report stops being evidence
	// Failures counts the tasks of FailedFence that did not succeed.
	Failures    int
	FailedFence int64
}

// Progress is how far the owning room has come, and since when.
type Progress struct {
	State     State
	Since     time.Time
	ExpiresAt time.Time // zero: no lease end
	// Hourly is what its tenant pays while it is active.
	Hourly   money.Minor
	Currency string
	Leave    Eviction // as its tenant was told
}

// DueAllocation is one allocation of the due set; what is nil is not there.
type DueAllocation struct {
	ID       ids.Allocation
	Want     *Want
	Have     *Have
	Progress *Progress
	Asked    Previous
	Standing []OpenDrift // drift that is open or ignored
	Leave    *Eviction   // nil: its node may keep it
}

// Allocations compares, for each allocation of the due set, what should be with
// what its node last reported, and returns the actions that close the gap: at
// most one for each, because what is recorded now changes what is asked next.
func Allocations(due []DueAllocation, l Limits, now time.Time) Plan {
	var p Plan
	for _, d := range due {
		a := allocation{DueAllocation: d, Limits: l, now: now}
		a.DriftResult = a.evaluate()
		act, needed := a.record()
		if !needed {
			act, needed = a.host()
		}
		if a.suspension().forbids(act, now) {
			needed = false
		}
		p.Drift = append(p.Drift, a.Moves...)
		p.request(act, needed, d.Asked, a.failures(), l.AskAgain, now)
		if !needed && a.atWork() {
			p.retain(desired.KindAllocation, d.ID.UUID, d.Asked, now)
		}
		p.recheckAt(desired.KindAllocation, d.ID.UUID, a.deadline(), now, "deadline of "+string(a.state()))
		p.recheckEviction(a)
		p.recheckAt(desired.KindAllocation, d.ID.UUID, a.LookAt, now, "a difference is no longer ignored")
		if s := a.suspension(); s != nil {
			p.recheckAt(desired.KindAllocation, d.ID.UUID, s.Until, now, "its suspension ends")
		}
	}
	return p
}

// allocation is one due allocation with what its planning reads.
type allocation struct {
	DueAllocation
	Limits

	DriftResult

	now time.Time
}

// record is what the room must write down: it follows what was observed.
func (a allocation) record() (Action, bool) {
	if act, needed := a.observed(); needed {
		return act, true
	}
	switch a.state() {
	case Requested, Provisioning, Active:
		return a.evictionDue()
	case Releasing, Released, Failed, ReleaseFailed:
	}
	return Action{}, false
}

func (a allocation) observed() (Action, bool) {
	late := !a.deadline().IsZero() && !a.now.Before(a.deadline())
	switch a.state() {
	case Requested, Provisioning:
		switch {
		case a.ready():
			return a.event(NodeReady, "node reports ready")
		case a.isDesired() && a.failures() >= a.ProvisionAttempts:
			return a.event(Exhausted, "provisioning attempts used up")
		case a.isDesired() && late:
			return a.event(Exhausted, "provisioning took too long")
		}
	case Active:
		if a.isDesired() && late {
			return a.event(Expired, "TTL expired")
		}
	case Releasing:
		switch {
		case a.isGone():
			return a.event(CleanupProved, "node proved the cleanup")
		case a.failures() >= a.ReleaseAttempts:
			return a.event(Exhausted, "release attempts used up")
		case late:
			return a.event(Exhausted, "release took too long")
		}
	case ReleaseFailed, Failed:
		// Final for the user, not for the slots: only a proof frees them, and it
		// may still come.
		if a.isGone() {
			return a.event(CleanupProved, "node proved the cleanup")
		}
	case Released:
	}
	return Action{}, false
}

// deadline is when the present state has lasted too long, or the lease ends.
func (a allocation) deadline() time.Time {
	switch a.state() {
	case Requested, Provisioning:
		return a.Progress.Since.Add(a.ProvisionDeadline)
	case Active:
		return a.Progress.ExpiresAt
	case Releasing:
		return a.Progress.Since.Add(a.ReleaseDeadline)
	case Released, Failed, ReleaseFailed:
	}
	return time.Time{}
}

// host is what the node must be asked.
func (a allocation) host() (Action, bool) {
	w, h := a.Want, a.Have
	switch {
	case a.blind():
		// A silent host may still run the old spec, and half a report proves no
		// absence. Acting on either could sell a slot twice, so only ask, and
		// only while there is something left to learn.
		if w == nil && h.Phase == protocol.Gone || a.hasConverged() {
			return Action{}, false
		}
		return a.action(Probe, "report is stale or incomplete"), true

	case w == nil:
		if h == nil || h.Phase == protocol.Gone {
			return Action{}, false
		}
		// Both sides of a due key are read in full: a leak, not a gap.
		act := a.action(Release, "not desired")
		act.Fence, act.Judged = h.Fence+1, true
		return act, true

	case w.Released:
		// Released, failed, out of money alike, reported or not: until the host
		// says gone at this fence, an older task may still reach it, and its slots
		// are neither clean nor for sale.
		if a.isGone() {
			return Action{}, false
		}
		return a.action(Release, "released"), true

	case h == nil:
		return a.action(Ensure, "never reported"), true
	case w.Fence > h.Fence:
		return a.action(Ensure, "newer fence"), true
	case h.Phase == protocol.Working:
		return Action{}, false
	case w.SpecHash != h.SpecHash:
		return a.action(Ensure, "spec differs"), true
	case h.Phase == protocol.Gone, h.Phase == protocol.Broken:
		// What was once right and no longer is may be somebody's to decide about;
		// what never was is still being made.
		return a.action(Ensure, "drifted: "+a.drifted()), !a.drifting() || len(a.Heals) > 0
	}
	return Action{}, false
}

// evaluate opens findings when an active allocation is no longer as it was, and closes
// them when it is again. In between, while the host is at work or not heard, what
// stands stays.
func (a allocation) evaluate() DriftResult {
	s := Subject{Kind: desired.KindAllocation, Object: a.ID.UUID}
	if w := a.Want; w != nil {
		s.Name, s.Suspended = w.Name, w.Suspended
		s.Rules = RulesOf(desired.KindAllocation, w.Drift, w.Ignore, a.Drift)
	}
	switch {
	case !a.isDesired(), a.ready():
		return EvaluateDrift(s, nil, a.Standing, anyField, a.now)
	case a.drifting():
		return EvaluateDrift(s, a.differences(), a.Standing, anyField, a.now)
	}
	return DriftResult{}
}

func anyField(string) bool { return true }

// drifting: it was right at this fence, and its host says that it no longer is.
func (a allocation) drifting() bool {
	return a.isDesired() && a.state() == Active && a.Have != nil && !a.blind() && a.Have.Fence == a.Want.Fence &&
		(a.Have.Phase == protocol.Broken || a.Have.Phase == protocol.Gone)
}

// differences are what the host has found. All of them together cost what the
// tenant pays for something else than it has.
func (a allocation) differences() []Difference {
	all := []Difference{{Field: "presence", Desired: "as ordered", Observed: "gone", Cause: "the node does not report it"}}
	if a.Have.Phase == protocol.Broken {
		all = split(a.Have.Message)
	}
	if a.Progress.Hourly > 0 {
		all[0].Cost, all[0].Currency = a.Progress.Hourly, a.Progress.Currency
	}
	return all
}

// The fields that hosts name. What an older agent says has none, and is a whole.
var fields = []string{
	"account", "keys", "principals", "access", "process", "home", "network", "slice", "settings", "cpu_weight", "memory_mib", "tasks",
}

// split reads the words of a host: sentences between semicolons, each a field, what
// was found, and what was ordered.
func split(message string) (all []Difference) {
	for sentence := range strings.SplitSeq(message, "; ") {
		d := Difference{Field: "state", Desired: "as ordered", Observed: cmp.Or(sentence, "not as ordered"), Cause: "changed on the node"}
		if field, words, ok := strings.Cut(sentence, ": "); ok && slices.Contains(fields, field) {
			d.Field = field
			var ordered bool
			if d.Observed, d.Desired, ordered = strings.Cut(words, ", expected "); !ordered {
				d.Desired = "as ordered"
			}
		}
		if i := slices.IndexFunc(all, func(o Difference) bool { return o.Field == d.Field }); i >= 0 {
			all[i].Observed += "; " + d.Observed
			continue
		}
		all = append(all, d)
	}
	return all
}

func (a allocation) drifted() string {
	switch {
	case a.Have.Message != "":
		return a.Have.Message
	case a.Have.Phase == protocol.Gone:
		return "the node does not report it"
	}
	return "not as ordered"
}

// suspension is nil where a person has suspended nothing.
func (a allocation) suspension() *Suspension {
	if a.Want == nil {
		return nil
	}
	return a.Want.Suspended
}

func (a allocation) action(v Verb, reason string) Action {
	act := Action{Verb: v, Kind: desired.KindAllocation, Object: a.ID.UUID, Reason: reason, Blind: a.blind()}
	if a.Want != nil {
		act.Node, act.Fence, act.Generation, act.Epoch = a.Want.Node, a.Want.Fence, a.Want.Generation, a.Want.Epoch
		act.Slots = a.Want.Slots
	} else if a.Have != nil {
		act.Node, act.Fence = a.Have.Node, a.Have.Fence
	}
	return act
}

func (a allocation) event(e Trigger, reason string) (Action, bool) {
	act := a.action(Record, reason)
	act.Event = e
	return act, true
}

// state is Released where the room holds no row: there is nothing to record.
func (a allocation) state() State {
	if a.Progress == nil {
		return Released
	}
	return a.Progress.State
}

// isDesired: declared, and not to go.
func (a allocation) isDesired() bool { return a.Want != nil && !a.Want.Released }

// blind: the host has reported, but what it runs now is not known.
func (a allocation) blind() bool {
	return a.Have != nil && (!a.Have.Complete || !a.now.Before(a.Have.StaleAt))
}

// atWork: the host is carrying out what it was asked.
func (a allocation) atWork() bool {
	return a.Have != nil && a.Have.Phase == protocol.Working && !a.blind()
}

// ready: a fresh, whole report shows exactly what is declared.
func (a allocation) ready() bool {
	h := a.Have
	return h != nil && a.Want != nil && h.Phase == protocol.Ready && h.Fence == a.Want.Fence &&
		h.SpecHash == a.Want.SpecHash && !a.blind()
}

// isGone: the host has proved it at the fence that asked for it, or a later one.
// Proof does not age: nothing older than the fence can act on that host again.
func (a allocation) isGone() bool {
	return a.Have != nil && a.Want != nil && a.Want.Released && a.Have.Phase == protocol.Gone &&
		a.Have.Proven && a.Have.Fence >= a.Want.Fence
}

// hasConverged: nothing is asked of the host, whatever it says. A host gone silent is
// then the node's business.
func (a allocation) hasConverged() bool {
	if a.isGone() {
		return true
	}
	return a.isDesired() && a.Progress != nil && a.Progress.State == Active &&
		a.Have.Fence == a.Want.Fence && a.Have.Phase == protocol.Ready
}

// failures counts those of the present fence only.
func (a allocation) failures() int {
	if a.Have == nil || a.Want == nil || a.Have.FailedFence != a.Want.Fence {
		return 0
	}
	return a.Have.Failures
}
