package plan

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Rule is what drift leads to.
type Rule string

// The rules, as policy and annotations name them.
const (
	Heal   Rule = "heal"   // it is put right
	Warn   Rule = "warn"   // a person is told, and nothing is done
	Ignore Rule = "ignore" // nobody is asked to do anything
)

// The owners of a difference: who must act.
const (
	OwnerPlatform = "platform"
	OwnerOperator = "operator"
)

const (
	// What the platform heals it heals within this: the promise of INV-17.
	healWithin = 2 * time.Minute
	// A day has one shift that looks after what the platform may not, or cannot, put right.
	personWithin = 24 * time.Hour
	// A rule that ignores has no end of its own; after a quarter it is written anew.
	ignoredFor = 90 * 24 * time.Hour
)

// Difference is one field of one object in which what is differs from what should be.
type Difference struct {
	Field, Desired, Observed, Cause string
	Cost                            money.Minor // per hour, while it lasts
	Currency                        string
	// Remote says that the platform cannot put it right: nobody plugs in a GPU from here.
	Remote bool
}

// Finding is how a difference is written down: a row of the history of drift.
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

// Move is what becomes of a finding.
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
	// Reopened: it was ignored, and no longer is. It is told as it was when it opened.
	Reopened bool
}

// Suspension is when a person has said that nothing is to be done to an object.
type Suspension struct{ Until time.Time } // zero: without an end

// covers says whether the suspension has not ended by itself.
func (s *Suspension) covers(now time.Time) bool {
	return s != nil && (s.Until.IsZero() || now.Before(s.Until))
}

// forbids says whether nothing of the kind may be done: neither is anything put in
// place, nor taken away because the platform thinks so.
func (s *Suspension) forbids(act Action, now time.Time) bool {
	return s.covers(now) && (act.Verb == Ensure || act.Verb == Release && act.Judged)
}

// Rules are what policy and the declaration say of an object's drift.
type Rules struct {
	Rule    Rule
	By      string // what says so
	Ignored []desired.IgnoredDifference
}

// RulesOf puts the rule of a kind and the annotations of an object together. An
// annotation that cannot be read says nothing: ignoring is asked for, not guessed.
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

// Subject is the object whose differences are judged.
type Subject struct {
	Kind      desired.Kind
	Object    uuid.UUID
	Name      string
	Rules     Rules
	Suspended *Suspension
}

// DriftResult is what differences lead to.
type DriftResult struct {
	Moves []Drift
	// Heals holds the fields that the platform must put right now.
	Heals []string
	// LookAt is when something that is ignored stops being so; zero: nothing is.
	LookAt time.Time
}

// EvaluateDrift compares the differences of an object with those that stand. Standing ones
// that mine does not accept are somebody else's to judge.
func EvaluateDrift(s Subject, found []Difference, standing []OpenDrift, mine func(field string) bool, now time.Time) (j DriftResult) {
	left := slices.Clone(standing)
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

func (j *DriftResult) add(s Subject, f Finding, have *OpenDrift, now time.Time) {
	switch {
	case f.Ignored && (j.LookAt.IsZero() || f.IgnoredUntil.Before(j.LookAt)):
		j.LookAt = f.IgnoredUntil
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

// finding says who must do what about a difference, and until when.
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
		f.DeadlineAt = have.DeadlineAt // a deadline that moves is none
	}
	return f
}

// ByRule begins what is ignored by a rule; whatever else ignores is a person.
const ByRule = "rule: "

// ignore says whether a difference is left alone: by a person, by an annotation for
// this field, or by the rule for all of them.
func (f *Finding) ignore(r Rules, have *OpenDrift, now time.Time) bool {
	standing := have != nil && have.Ignored && now.Before(have.IgnoredUntil)
	if standing && !strings.HasPrefix(have.IgnoredBy, ByRule) {
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
	if standing && have.IgnoredBy == ByRule+r.By {
		until = have.IgnoredUntil
	}
	return f.ignored(ByRule+r.By, "drift of this is ignored", until)
}

func (f *Finding) ignored(by, reason string, until time.Time) bool {
	f.Ignored, f.IgnoredBy, f.IgnoredReason, f.IgnoredUntil = true, by, reason, until
	return true
}

// same: nothing that is written down differs.
func (f Finding) same(g Finding) bool {
	deadline, until := f.DeadlineAt.Equal(g.DeadlineAt), f.IgnoredUntil.Equal(g.IgnoredUntil)
	f.DeadlineAt, f.IgnoredUntil, f.Remote = g.DeadlineAt, g.IgnoredUntil, g.Remote
	return deadline && until && f == g
}
