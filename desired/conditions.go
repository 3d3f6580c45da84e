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

// Conditions says where a source stands, Ready first. It is pure.
func (s SourceState) Conditions(now time.Time) []Condition {
	list := []Condition{s.ready(now)}
	if s.FaultSince != nil {
		list = append(list, s.condition("Stalled", isTrue, "Unreachable", s.Fault, *s.FaultSince))
	}
	if r := s.Latest; s.judgesHead() && r.Status == StatusWaiting {
		list = append(list, s.condition("Waiting", isTrue, "ApprovalRequired", waitsFor(r), r.UpdatedAt))
	}
	if s.Suspended != nil {
		list = append(list, s.condition("Suspended", isTrue, "AskedFor", s.Suspended.By+": "+s.Suspended.Reason, s.Suspended.At))
	}
	return list
}

func (s SourceState) ready(now time.Time) Condition {
	r := s.Latest
	switch {
	case s.GoneAt != nil:
		return s.condition("Ready", isFalse, "NotDeclared", "no longer declared; its objects stay as they are", *s.GoneAt)
	case s.FaultSince != nil:
		return s.condition("Ready", isFalse, "Unreachable", s.Fault, *s.FaultSince)
	case s.CheckedAt == nil:
		return s.condition("Ready", unclear, "Progressing", "nobody has looked yet", now)
	case s.judgesHead() && r.Status == StatusInvalid:
		return s.condition("Ready", isFalse, "Invalid", firstOf(r), r.UpdatedAt)
	case s.judgesHead() && r.Status == StatusRejected:
		return s.condition("Ready", isFalse, "Rejected", firstOf(r), r.UpdatedAt)
	case s.judgesHead() && r.Status == StatusWaiting:
		return s.condition("Ready", isFalse, "ApprovalRequired", waitsFor(r), r.UpdatedAt)
	case s.judgesHead() && r.Status == StatusPlanned:
		return s.condition("Ready", isFalse, "Suspended", waitsFor(r), r.UpdatedAt)
	case s.Applied.Revision == 0:
		return s.condition("Ready", unclear, "Progressing", "nothing has been applied yet", *s.CheckedAt)
	}
	return s.condition("Ready", isTrue, "Succeeded", fmt.Sprintf("stands at revision %d", s.Applied.Revision), s.Applied.AppliedAt)
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
		Message: "the server was started with other values of " + strings.Join(fields, ", "),
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
