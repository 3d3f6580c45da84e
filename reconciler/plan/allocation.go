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

// State of an allocation, with the values of product/allocation, which owns the state machine.
type State string

// States that the planner distinguishes. Released and failed allocations need no action.
const (
	Requested     State = "requested"
	Provisioning  State = "provisioning"
	Active        State = "active"
	Releasing     State = "releasing"
	Released      State = "released"
	Failed        State = "failed"
	ReleaseFailed State = "release_failed"
)

// Desired is the desired state of an allocation.
type Desired struct {
	Name       string
	Node       ids.Node
	SKU        string
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

// Observed is the last report of the node about the allocation.
type Observed struct {
	Node     ids.Node
	Phase    protocol.Phase
	Fence    int64
	SpecHash string
	Message  string
	Proven   bool      // gone, and the node's leftover scan found nothing
	Complete bool      // the report was complete
	StaleAt  time.Time // when that report stops being evidence
	// Failures counts the tasks of FailedFence that did not succeed.
	Failures    int
	FailedFence int64
}

// ObservedOn returns the report of the node that an allocation is placed on. For an allocation without a
// desired object, it returns a report of a node that still has it, or any.
func ObservedOn(reports []Observed, want *Desired) *Observed {
	// More than one node may report an allocation. Only the report of the node in the spec describes this placement.
	i := slices.IndexFunc(reports, func(o Observed) bool {
		return want != nil && o.Node == want.Node || want == nil && o.Phase != protocol.Gone
	})
	// Every node reports it as gone. Any of these reports shows that nothing is left to release.
	if i < 0 && want == nil && len(reports) > 0 {
		i = 0
	}
	if i < 0 {
		return nil
	}
	return &reports[i]
}

// Progress is the state that product/allocation has stored, and its time.
type Progress struct {
	State     State
	Since     time.Time
	ExpiresAt time.Time // zero: no lease end
	// Hourly is the price per hour while the allocation is active.
	Hourly   money.Minor
	Currency string
	Eviction Eviction // as announced to its tenant
}

// DueAllocation is one allocation of the due set; what is nil is not there.
type DueAllocation struct {
	ID        ids.Allocation
	Desired   *Desired
	Observed  *Observed
	Progress  *Progress
	Previous  Previous
	OpenDrift []OpenDrift // drift that is open or ignored
	Eviction  *Eviction   // nil: it may stay on its node
}

// Allocations compares the desired state of each due allocation with its node's last report and
// returns the actions that close the difference. There is at most one action for each allocation,
// because a recorded trigger changes the next request.
func Allocations(due []DueAllocation, l Limits, now time.Time) Plan {
	var p Plan
	for _, d := range due {
		a := allocation{DueAllocation: d, Limits: l, now: now}
		// Evaluate drift first: the rule of an open difference decides below whether the planner may heal it.
		a.DriftResult = a.evaluate()
		// A trigger precedes an action for the node, because it changes the state and with it the action. An exhausted
		// allocation, for example, must not receive one more task.
		act, needed := a.record()
		if !needed {
			act, needed = a.nodeAction()
		}
		// A suspension stops what the platform would do by itself. A user's release and all records continue, because
		// charging must end and the stored state must stay true.
		if a.suspension().forbids(act, now) {
			needed = false
		}
		p.Drift = append(p.Drift, a.Moves...)
		p.request(act, needed, d.Previous, a.failures(), l.RetryAfter, now)
		// The task runs, so nothing is requested. The previous request stays stored, because its time limits the next
		// attempt after a failure.
		if !needed && a.atWork() {
			p.retain(desired.KindAllocation, d.ID.UUID, d.Previous, now)
		}
		p.recheckAt(desired.KindAllocation, d.ID.UUID, a.deadline(), now, "deadline of "+string(a.state()))
		p.recheckEviction(a)
		p.recheckAt(desired.KindAllocation, d.ID.UUID, a.RecheckAt, now, "a difference is no longer ignored")
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

// record returns the trigger that follows from the observed state, if any.
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
		// Only an allocation that is still desired can fail to provision. A released one ends by its release.
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
		// The proof is checked first. A proof that arrives together with the last failure still frees the slots.
		case a.failures() >= a.ReleaseAttempts:
			return a.event(Exhausted, "release attempts used up")
		case late:
			return a.event(Exhausted, "release took too long")
		}
	case ReleaseFailed, Failed:
		// The state is final for the user and not for the slots: only a proof frees them, and a
		// proof may still arrive.
		if a.isGone() {
			return a.event(CleanupProved, "node proved the cleanup")
		}
	case Released:
	}
	return Action{}, false
}

// deadline returns the time at which the present state violates its SLA, or at which the TTL ends.
func (a allocation) deadline() time.Time {
	switch a.state() {
	case Requested, Provisioning:
		return a.Progress.Since.Add(a.deadlines().Provision)
	case Active:
		return a.Progress.ExpiresAt
	case Releasing:
		return a.Progress.Since.Add(a.deadlines().Release)
	case Released, Failed, ReleaseFailed:
	}
	return time.Time{}
}

// deadlines returns the time limits of its SKU, or those of the platform.
func (a allocation) deadlines() Deadlines {
	if a.Desired != nil {
		if of, ok := a.SKUs[a.Desired.SKU]; ok {
			return of
		}
	}
	return a.Deadlines
}

// nodeAction returns the action for the node, if any.
func (a allocation) nodeAction() (Action, bool) {
	w, h := a.Desired, a.Observed
	switch {
	case a.blind():
		// A node with stale reports may still run the old spec, and an incomplete report proves no
		// absence. Acting on either could sell a slot twice. So only probe, and only while a report
		// can still change the result. A release is no risk: it is idempotent and fenced.
		if a.releasesBlind() {
			return a.action(Release, "released; its report is stale or incomplete"), true
		}
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
		act.Automatic = true
		return act, true

	case w.Released:
		// Released, failed and depleted allocations are treated alike, reported or not. Until the
		// node reports "gone" at this fence, an older task may still reach it, and its slots are
		// neither clean nor sellable.
		if a.isGone() {
			return Action{}, false
		}
		return a.action(Release, "released"), true

	case h == nil:
		return a.action(Ensure, "never reported"), true
	// The node has not executed the latest decision. Its report is about an older one and proves nothing about this one.
	case w.Fence > h.Fence:
		return a.action(Ensure, "newer fence"), true
	// The task of this fence runs. A second task would be a repetition, and its result is reported anyway.
	case h.Phase == protocol.Working:
		return Action{}, false
	case w.SpecHash != h.SpecHash:
		return a.action(Ensure, "spec differs"), true
	case h.Phase == protocol.Gone, h.Phase == protocol.Broken:
		// A difference of an active allocation is drift, and a rule may decide about it. A
		// difference of one that was never ready belongs to its provisioning.
		return a.action(Ensure, "drifted: "+a.drifted()), !a.drifting() || len(a.Heals) > 0
	}
	return Action{}, false
}

// evaluate opens findings when an active allocation differs from its spec, and closes them when it
// no longer does. While the node is executing a task or its reports are stale, open findings stay.
func (a allocation) evaluate() DriftResult {
	s := Subject{Kind: desired.KindAllocation, Object: a.ID.UUID}
	if w := a.Desired; w != nil {
		s.Name, s.Suspended = w.Name, w.Suspended
		s.Rules = RulesOf(desired.KindAllocation, w.Drift, w.Ignore, a.Drift)
	}
	switch {
	case !a.isDesired(), a.ready():
		return EvaluateDrift(s, nil, a.OpenDrift, anyField, a.now)
	case a.drifting():
		return EvaluateDrift(s, a.differences(), a.OpenDrift, anyField, a.now)
	}
	return DriftResult{}
}

func anyField(string) bool { return true }

// drifting reports whether the allocation was ready at this fence and its node now reports a
// difference. Before the state is active a difference is the normal course of provisioning, and drift would be
// opened for every new allocation.
func (a allocation) drifting() bool {
	return a.isDesired() && a.state() == Active && a.Observed != nil && !a.blind() && a.Observed.Fence == a.Desired.Fence &&
		(a.Observed.Phase == protocol.Broken || a.Observed.Phase == protocol.Gone)
}

// differences returns what the node has reported to differ. Together they cost the allocation's
// price: the tenant pays for a product that is not complete.
func (a allocation) differences() []Difference {
	all := []Difference{{Field: "presence", Desired: "as ordered", Observed: "gone", Cause: "the node does not report it"}}
	// Only a node that still has the allocation can name the fields that differ.
	if a.Observed.Phase == protocol.Broken {
		all = split(a.Observed.Message)
	}
	if a.Progress.Hourly > 0 {
		all[0].Cost, all[0].Currency = a.Progress.Hourly, a.Progress.Currency
	}
	return all
}

// Fields that nodes report. A message of an older agent has no field and is one difference.
var fields = []string{
	"account", "keys", "principals", "login_from", "forwarding", "access", "process", "home", "network", "slice", "settings", "cpu_weight", "memory_mib", "tasks",
}

// split parses a node's message: sentences separated by semicolons, each with a field, the observed
// and the desired value.
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
		// The drift history has one open row for each field. A second row of the field would violate its unique index.
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
	case a.Observed.Message != "":
		return a.Observed.Message
	case a.Observed.Phase == protocol.Gone:
		return "the node does not report it"
	}
	return "not as ordered"
}

// suspension returns nil if the object is not suspended.
func (a allocation) suspension() *Suspension {
	if a.Desired == nil {
		return nil
	}
	return a.Desired.Suspended
}

func (a allocation) action(v Verb, reason string) Action {
	act := Action{Verb: v, Kind: desired.KindAllocation, Object: a.ID.UUID, Reason: reason, Unobserved: a.blind()}
	if a.Desired != nil {
		act.Node, act.Fence, act.Generation, act.Epoch = a.Desired.Node, a.Desired.Fence, a.Desired.Generation, a.Desired.Epoch
		act.Slots = a.Desired.Slots
	} else if a.Observed != nil {
		act.Node, act.Fence = a.Observed.Node, a.Observed.Fence
	}
	return act
}

func (a allocation) event(e Trigger, reason string) (Action, bool) {
	act := a.action(Record, reason)
	act.Event = e
	return act, true
}

// state returns Released if product/allocation has no row: there is nothing to record.
func (a allocation) state() State {
	if a.Progress == nil {
		return Released
	}
	return a.Progress.State
}

// isDesired reports whether the object exists and is not released.
func (a allocation) isDesired() bool { return a.Desired != nil && !a.Desired.Released }

// blind reports whether the node's last report no longer describes its present state.
func (a allocation) blind() bool {
	return a.Observed != nil && (!a.Observed.Complete || !a.now.Before(a.Observed.StaleAt))
}

// releasesBlind reports whether a release is sent although the last report proves nothing: to a node that
// reports, because a tenant may be the reason why a part of it cannot be read, and to a stale one if the
// release is overdue.
func (a allocation) releasesBlind() bool {
	released := a.Desired != nil && a.Desired.Released && !a.isGone()
	return released && (a.now.Before(a.Observed.StaleAt) || a.state() == ReleaseFailed)
}

// atWork reports whether the node is executing the requested task.
func (a allocation) atWork() bool {
	return a.Observed != nil && a.Observed.Phase == protocol.Working && !a.blind()
}

// ready reports whether a recent, complete report equals the spec. The fence must be equal, too: a node that is
// ready at an older fence has not executed the latest decision.
func (a allocation) ready() bool {
	h := a.Observed
	return h != nil && a.Desired != nil && h.Phase == protocol.Ready && h.Fence == a.Desired.Fence &&
		h.SpecHash == a.Desired.SpecHash && !a.blind()
}

// isGone reports whether the node has proved the cleanup at the requested fence or a later one. A
// proof does not become stale: no task with an older fence can run on that node again.
func (a allocation) isGone() bool {
	return a.Observed != nil && a.Desired != nil && a.Desired.Released && a.Observed.Phase == protocol.Gone &&
		a.Observed.Proven && a.Observed.Fence >= a.Desired.Fence
}

// hasConverged reports whether the node needs no action, whatever it reports. Stale reports then
// concern only the node and not the allocation.
func (a allocation) hasConverged() bool {
	if a.isGone() {
		return true
	}
	return a.isDesired() && a.Progress != nil && a.Progress.State == Active &&
		a.Observed.Fence == a.Desired.Fence && a.Observed.Phase == protocol.Ready
}

// failures counts the failed tasks of the present fence only. A new decision gets all its attempts.
func (a allocation) failures() int {
	if a.Observed == nil || a.Desired == nil || a.Observed.FailedFence != a.Desired.Fence {
		return 0
	}
	return a.Observed.Failures
}
