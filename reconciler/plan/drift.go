package plan

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Rule is the reaction to drift.
type Rule string

// The rules, as policy and annotations name them.
const (
	Heal   Rule = "heal"   // it is corrected
	Warn   Rule = "warn"   // operators are notified, nothing is changed
	Ignore Rule = "ignore" // neither notified nor changed
)

// The owners of a difference: who must act.
const (
	OwnerPlatform = "platform"
	OwnerOperator = "operator"
)

const (
	// What the platform heals it heals within this: the promise of INV-17.
	healWithin = 2 * time.Minute
	// personWithin is one day, since a day has one shift that works on what the platform may not or
	// cannot correct.
	personWithin = 24 * time.Hour
	// ignoredFor limits an ignore that a rule has set, which has no end of its own. After a
	// quarter the row is renewed.
	ignoredFor = 90 * 24 * time.Hour
)

// Difference is one field of one object in which what is differs from what should be.
type Difference struct {
	Field, Desired, Observed, Cause string
	Cost                            money.Minor // per hour, while it lasts
	Currency                        string
	// Remote marks drift that the platform cannot heal, such as a missing GPU.
	Remote bool
}

// Finding is a stored difference: a row of the drift history.
type Finding struct {
	Difference

	Policy                   Rule
	Owner                    string
	DeadlineAt               time.Time // zero: ignored
	Ignored                  bool
	IgnoredBy, IgnoredReason string
	IgnoredUntil             time.Time
}

// OpenDrift is a finding that is open or ignored.
type OpenDrift struct {
	Finding

	ID       uuid.UUID
	OpenedAt time.Time
	Version  int64
}

// Move is the change of a finding.
type Move string

// The moves. Only the outermost are facts: a difference is there, or no longer.
const (
	Opened  Move = "opened"
	Changed Move = "changed"
	Healed  Move = "healed"
)

// Drift is one move of one finding.
type Drift struct {
	OpenDrift

	Move   Move
	Kind   desired.Kind
	Object uuid.UUID
	Name   string
	// Reopened reports that the finding was ignored and no longer is. It emits the same event as a
	// new finding.
	Reopened bool
}

// Suspension ends at a time that an operator has set. Until then the loop does nothing to the
// object.
type Suspension struct{ Until time.Time } // zero: without an end

// covers reports whether the suspension has not ended.
func (s *Suspension) covers(now time.Time) bool {
	return s != nil && (s.Until.IsZero() || now.Before(s.Until))
}

// forbids reports whether a suspension stops an action: an ensure, or a release that the platform
// decided by itself. A probe changes nothing, and a release that a user has requested ends charges.
func (s *Suspension) forbids(act Action, now time.Time) bool {
	return s.covers(now) && (act.Verb == Ensure || act.Verb == Release && act.Automatic)
}

// Rules are the drift rules of an object from the policies and from its spec.
type Rules struct {
	Rule    Rule
	By      string // the origin of the rule
	Ignored []desired.IgnoredDifference
}

// RulesOf merges the rule of a kind with the annotations of an object. An invalid annotation is
// skipped: drift is ignored only on an explicit request.
func RulesOf(kind desired.Kind, drift, ignore string, policy map[desired.Kind]Rule) Rules {
	r := Rules{Rule: Heal, By: "policy"}
	if rule, set := policy[kind]; set {
		r.Rule = rule
	}
	switch own := Rule(drift); own {
	case Heal, Warn, Ignore:
		r.Rule, r.By = own, "annotation "+desired.AnnotationDrift
	}
	if some, err := desired.IgnoredDifferences(ignore); err == nil {
		r.Ignored = some
	}
	return r
}

// Subject is the object that is compared.
type Subject struct {
	Kind      desired.Kind
	Object    uuid.UUID
	Name      string
	Rules     Rules
	Suspended *Suspension
}

// DriftResult is the result of EvaluateDrift.
type DriftResult struct {
	Moves []Drift
	// Heals contains the fields that the platform must correct now.
	Heals []string
	// RecheckAt is the time at which an ignore period ends. Zero means that nothing is ignored.
	RecheckAt time.Time
}

// EvaluateDrift compares the differences of an object with its open drift. Open drift of a field
// that mine rejects belongs to another evaluation and stays unchanged: reports and stored specs of a node are compared
// at different times, and each comparison would otherwise close the drift of the other.
func EvaluateDrift(s Subject, found []Difference, open []OpenDrift, mine func(field string) bool, now time.Time) (j DriftResult) {
	left := slices.Clone(open)
	for _, d := range found {
		var have *OpenDrift
		if i := slices.IndexFunc(left, func(st OpenDrift) bool { return st.Field == d.Field }); i >= 0 {
			have = &OpenDrift{}
			*have = left[i]
			left = slices.Delete(left, i, i+1)
		}
		j.add(s, s.finding(d, have, now), have, now)
	}
	for _, gone := range left {
		if mine(gone.Field) {
			j.Moves = append(j.Moves, Drift{OpenDrift: gone, Move: Healed, Kind: s.Kind, Object: s.Object, Name: s.Name})
		}
	}
	return j
}

// add adds the move of one finding. An unchanged finding is no move, so a pass over an unchanged fleet writes nothing.
func (j *DriftResult) add(s Subject, f Finding, have *OpenDrift, now time.Time) {
	switch {
	case f.Ignored && (j.RecheckAt.IsZero() || f.IgnoredUntil.Before(j.RecheckAt)):
		j.RecheckAt = f.IgnoredUntil
	case !f.Ignored && f.Owner == OwnerPlatform:
		j.Heals = append(j.Heals, f.Field)
	}
	move := Drift{OpenDrift: OpenDrift{Finding: f, OpenedAt: now}, Move: Opened, Kind: s.Kind, Object: s.Object, Name: s.Name}
	if have != nil {
		if f.same(have.Finding) {
			return
		}
		move.Move, move.ID, move.OpenedAt, move.Version = Changed, have.ID, have.OpenedAt, have.Version
		move.Reopened = have.Ignored && !f.Ignored
	}
	j.Moves = append(j.Moves, move)
}

// finding returns the actor that must resolve a difference, and the deadline.
func (s Subject) finding(d Difference, have *OpenDrift, now time.Time) Finding {
	f := Finding{Difference: d, Policy: s.Rules.Rule, Owner: OwnerOperator}
	if f.ignore(s.Rules, have, now) {
		return f
	}
	within := personWithin
	if f.Policy == Heal && !d.Remote && !s.Suspended.covers(now) {
		f.Owner, within = OwnerPlatform, healWithin
	}
	f.DeadlineAt = now.Add(within)
	if have != nil && !have.Ignored && have.Owner == f.Owner && !have.DeadlineAt.IsZero() {
		// Each pass evaluates the drift again and would otherwise extend the deadline for ever.
		f.DeadlineAt = have.DeadlineAt // a deadline that moves is none
	}
	return f
}

// ByRule is the prefix of the actor of an ignore that a rule has set. An operator's ignore has none. The planner ends
// an ignore by a rule with the rule, but never an operator's ignore.
const ByRule = "rule: "

// ignore reports whether a difference is ignored: by an operator, by an annotation for this field,
// or by the rule for all fields.
func (f *Finding) ignore(r Rules, have *OpenDrift, now time.Time) bool {
	inEffect := have != nil && have.Ignored && now.Before(have.IgnoredUntil)
	if inEffect && !strings.HasPrefix(have.IgnoredBy, ByRule) {
		return f.ignored(have.IgnoredBy, have.IgnoredReason, have.IgnoredUntil)
	}
	for _, i := range r.Ignored {
		if i.Covers(f.Field) && now.Before(i.Until) {
			return f.ignored(ByRule+i.Owner, "annotation "+desired.AnnotationIgnore, i.Until)
		}
	}
	if r.Rule != Ignore {
		return false
	}
	until := now.Add(ignoredFor)
	if inEffect && have.IgnoredBy == ByRule+r.By {
		until = have.IgnoredUntil
	}
	return f.ignored(ByRule+r.By, "drift of this is ignored", until)
}

func (f *Finding) ignored(by, reason string, until time.Time) bool {
	f.Ignored, f.IgnoredBy, f.IgnoredReason, f.IgnoredUntil = true, by, reason, until
	return true
}

// same reports whether no stored column differs. Times are compared as instants, because == also compares their time
// zones. Remote is not stored.
func (f Finding) same(g Finding) bool {
	deadline, until := f.DeadlineAt.Equal(g.DeadlineAt), f.IgnoredUntil.Equal(g.IgnoredUntil)
	f.DeadlineAt, f.IgnoredUntil, f.Remote = g.DeadlineAt, g.IgnoredUntil, g.Remote
	return deadline && until && f == g
}
