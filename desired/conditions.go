package desired

import (
	"fmt"
	"strings"
	"time"
)

// Condition is a named yes, no or unknown.
type Condition struct {
	Type               string    `json:"type"`
	Status             string    `json:"status"` // True | False | Unknown
	Reason             string    `json:"reason"` // CamelCase
	Message            string    `json:"message"`
	ObservedGeneration int64     `json:"observed_generation"` // of a source: the revision that it stands at
	LastTransitionTime time.Time `json:"last_transition_time"`
}

const (
	isTrue  = "True"
	isFalse = "False"
	unclear = "Unknown"
)

// Conditions says where a source stands, Ready first, then the steps to it. It is pure.
func (s SourceState) Conditions(now time.Time) []Condition {
	list := []Condition{s.ready(now), s.fetched(now), s.validated(now), s.applied(now)}
	if s.moves() {
		list = append(list, s.condition("Reconciling", isTrue, "Progressing", "the commit of the branch is not validated yet", *s.CheckedAt))
	}
	if s.FaultSince != nil {
		list = append(list, s.condition("Stalled", isTrue, "Unreachable", s.Fault, *s.FaultSince))
	}
	if r := s.Latest; s.judgesHead() && r.Status == StatusWaiting {
		list = append(list, s.condition("AwaitingApproval", isTrue, "ApprovalRequired", waitsFor(r), r.UpdatedAt))
	}
	if s.Suspended != nil {
		list = append(list, s.condition("Suspended", isTrue, "Suspended", s.Suspended.By+": "+s.Suspended.Reason, s.Suspended.At))
	}
	return list
}

// fetched: the last look got an answer.
func (s SourceState) fetched(now time.Time) Condition {
	switch {
	case s.FaultSince != nil:
		return s.condition("SourceFetched", isFalse, "Unreachable", s.Fault, *s.FaultSince)
	case s.FetchedAt == nil:
		return s.condition("SourceFetched", unclear, "Progressing", "the source was not fetched yet", now)
	}
	return s.condition("SourceFetched", isTrue, "Succeeded", "the branch names "+s.Head, *s.FetchedAt)
}

// validated: what the branch names can be applied, whether or not it may be.
func (s SourceState) validated(now time.Time) Condition {
	switch r := s.Latest; {
	case s.judgesHead() && r.Status == StatusInvalid:
		return s.condition("Validated", isFalse, refusedAs(r), firstOf(r), r.UpdatedAt)
	case s.judgesHead():
		return s.condition("Validated", isTrue, "Succeeded", "no findings", r.UpdatedAt)
	case s.stands():
		return s.condition("Validated", isTrue, "Succeeded", "no findings", s.Applied.AppliedAt)
	}
	return s.condition("Validated", unclear, "Progressing", "the commit of the branch is not validated yet", s.lookedAt(now))
}

// applied: what the branch names is what is declared.
func (s SourceState) applied(now time.Time) Condition {
	r := s.Latest
	if s.judgesHead() {
		switch r.Status {
		case StatusInvalid:
			return s.condition("Applied", isFalse, refusedAs(r), firstOf(r), r.UpdatedAt)
		case StatusRejected:
			return s.condition("Applied", isFalse, "Rejected", firstOf(r), r.UpdatedAt)
		case StatusWaiting:
			return s.condition("Applied", isFalse, "ApprovalRequired", waitsFor(r), r.UpdatedAt)
		case StatusPlanned:
			return s.condition("Applied", isFalse, "Suspended", waitsFor(r), r.UpdatedAt)
		}
	}
	if s.stands() {
		return s.condition("Applied", isTrue, "Succeeded", fmt.Sprintf("revision %d", s.Applied.Revision), s.Applied.AppliedAt)
	}
	return s.condition("Applied", unclear, "Progressing", "the commit of the branch is not validated yet", s.lookedAt(now))
}

// refusedAs is the reason of a refusal: an empty tree is more likely a wrong folder
// than a wrong file.
func refusedAs(r Revision) string {
	if len(r.Findings) > 0 && r.Findings[0].Code == CodeSourceEmpty {
		return "SourceEmpty"
	}
	return "ValidationFailed"
}

// stands: the tree that the branch names is applied.
func (s SourceState) stands() bool {
	return s.Applied.Revision > 0 && (s.Applied.TreeHash == s.TreeHash || s.TreeHash == "")
}

// moves: a commit was seen about which nothing is said yet.
func (s SourceState) moves() bool {
	return s.CheckedAt != nil && s.FaultSince == nil && s.GoneAt == nil && s.Head != "" && !s.judgesHead() && !s.stands()
}

func (s SourceState) lookedAt(now time.Time) time.Time {
	if s.CheckedAt == nil {
		return now
	}
	return *s.CheckedAt
}

func (s SourceState) ready(now time.Time) Condition {
	r := s.Latest
	switch {
	case s.GoneAt != nil:
		return s.condition("Ready", isFalse, "SourceRemoved", "the source is no longer configured; its objects stay unchanged", *s.GoneAt)
	case s.FaultSince != nil:
		return s.condition("Ready", isFalse, "Unreachable", s.Fault, *s.FaultSince)
	case s.CheckedAt == nil:
		return s.condition("Ready", unclear, "Progressing", "the source was not fetched yet", now)
	case s.judgesHead() && r.Status == StatusInvalid:
		return s.condition("Ready", isFalse, "ValidationFailed", firstOf(r), r.UpdatedAt)
	case s.judgesHead() && r.Status == StatusRejected:
		return s.condition("Ready", isFalse, "Rejected", firstOf(r), r.UpdatedAt)
	case s.judgesHead() && r.Status == StatusWaiting:
		return s.condition("Ready", isFalse, "ApprovalRequired", waitsFor(r), r.UpdatedAt)
	case s.judgesHead() && r.Status == StatusPlanned:
		return s.condition("Ready", isFalse, "Suspended", waitsFor(r), r.UpdatedAt)
	case s.Applied.Revision == 0:
		return s.condition("Ready", unclear, "Progressing", "no revision is applied yet", *s.CheckedAt)
	}
	return s.condition("Ready", isTrue, "Succeeded", fmt.Sprintf("revision %d is applied", s.Applied.Revision), s.Applied.AppliedAt)
}

// judgesHead: the last word is about what the branch names now, and not about a
// commit that was taken back.
func (s SourceState) judgesHead() bool {
	return s.Latest.Revision > 0 && s.Latest.Commit == s.Head && s.Latest.TreeHash == s.TreeHash
}

func (s SourceState) condition(kind, status, reason, message string, since time.Time) Condition {
	return Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: s.Applied.Revision, LastTransitionTime: since}
}

// RestartRequired says which fields of a declared profile the server has not taken
// up, since it reads them when it starts; none, and there is no such condition.
func RestartRequired(o Object, started, declared Environment, since time.Time) (Condition, bool) {
	fields := NeedsRestart(started, declared)
	if len(fields) == 0 {
		return Condition{}, false
	}
	return Condition{
		Type: "RestartRequired", Status: isTrue, Reason: "ProfileChanged", ObservedGeneration: o.Generation, LastTransitionTime: since,
		Message: "the server has started with other values of " + strings.Join(fields, ", "),
	}, true
}

// Lag is for how long the branch has named what is not applied, or has not been
// seen at all.
func (s SourceState) Lag(now time.Time) time.Duration {
	if c := s.ready(now); s.GoneAt == nil && c.Status == isFalse {
		return now.Sub(c.LastTransitionTime)
	}
	return 0
}

func firstOf(r Revision) string {
	if len(r.Findings) == 0 {
		return "refused"
	}
	text := r.Findings[0].String()
	if more := len(r.Findings) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

func waitsFor(r Revision) string {
	if len(r.Waits) == 0 {
		return fmt.Sprintf("revision %d waits", r.Revision)
	}
	return fmt.Sprintf("revision %d waits: %s", r.Revision, r.Waits[0].Message)
}
