package revision

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/desired"
)

const (
	isTrue  = "True"
	isFalse = "False"
	unclear = "Unknown"
)

// Conditions returns the conditions of a source: Ready first, then the steps to it. It is pure.
func (s SourceState) Conditions(now time.Time) []desired.Condition {
	list := []desired.Condition{s.ready(now), s.fetched(now), s.validated(now), s.applied(now)}
	if s.headPending() {
		list = append(list, s.condition("Reconciling", isTrue, "Progressing", "the commit of the branch is not validated yet", *s.CheckedAt))
	}
	if s.FaultSince != nil {
		list = append(list, s.condition("Stalled", isTrue, "Unreachable", s.Fault, *s.FaultSince))
	}
	if r := s.Latest; s.headEvaluated() && r.Status == StatusWaiting {
		list = append(list, s.condition("AwaitingApproval", isTrue, "ApprovalRequired", waitsFor(r), r.UpdatedAt))
	}
	if s.Suspended != nil {
		list = append(list, s.condition("Suspended", isTrue, "Suspended", s.Suspended.By+": "+s.Suspended.Reason, s.Suspended.At))
	}
	return list
}

// fetched reports whether the last fetch succeeded.
func (s SourceState) fetched(now time.Time) desired.Condition {
	switch {
	case s.FaultSince != nil:
		return s.condition("SourceFetched", isFalse, "Unreachable", s.Fault, *s.FaultSince)
	case s.FetchedAt == nil:
		return s.condition("SourceFetched", unclear, "Progressing", "the source was not fetched yet", now)
	}
	return s.condition("SourceFetched", isTrue, "Succeeded", "the branch names "+s.Head, *s.FetchedAt)
}

// validated reports whether the commit of the branch is valid. It may still wait for an approval.
func (s SourceState) validated(now time.Time) desired.Condition {
	switch r := s.Latest; {
	case s.headEvaluated() && r.Status == StatusInvalid:
		return s.condition("Validated", isFalse, rejectedAs(r), firstOf(r), r.UpdatedAt)
	case s.headEvaluated():
		return s.condition("Validated", isTrue, "Succeeded", "no findings", r.UpdatedAt)
	case s.upToDate():
		return s.condition("Validated", isTrue, "Succeeded", "no findings", s.Applied.AppliedAt)
	}
	return s.condition("Validated", unclear, "Progressing", "the commit of the branch is not validated yet", s.checkedAt(now))
}

// applied reports whether the commit of the branch is the applied one.
func (s SourceState) applied(now time.Time) desired.Condition {
	r := s.Latest
	if s.headEvaluated() {
		switch r.Status {
		case StatusInvalid:
			return s.condition("Applied", isFalse, rejectedAs(r), firstOf(r), r.UpdatedAt)
		case StatusRejected:
			return s.condition("Applied", isFalse, "Rejected", firstOf(r), r.UpdatedAt)
		case StatusWaiting:
			return s.condition("Applied", isFalse, "ApprovalRequired", waitsFor(r), r.UpdatedAt)
		case StatusPlanned:
			return s.condition("Applied", isFalse, "Suspended", waitsFor(r), r.UpdatedAt)
		}
	}
	if s.upToDate() {
		return s.condition("Applied", isTrue, "Succeeded", fmt.Sprintf("revision %d", s.Applied.Revision), s.Applied.AppliedAt)
	}
	return s.condition("Applied", unclear, "Progressing", "the commit of the branch is not validated yet", s.checkedAt(now))
}

// rejectedAs returns the reason of an invalid revision. An empty tree has its own: its cause is a wrong folder and not a
// wrong file.
func rejectedAs(r Revision) string {
	if len(r.Findings) > 0 && r.Findings[0].Code == desired.CodeSourceEmpty {
		return "SourceEmpty"
	}
	return "ValidationFailed"
}

// upToDate reports whether the tree of the branch is applied.
func (s SourceState) upToDate() bool {
	return s.Applied.Revision > 0 && (s.Applied.TreeHash == s.TreeHash || s.TreeHash == "")
}

// headPending reports whether the commit of the branch has no revision yet.
func (s SourceState) headPending() bool {
	return s.CheckedAt != nil && s.FaultSince == nil && s.GoneAt == nil && s.Head != "" && !s.headEvaluated() && !s.upToDate()
}

func (s SourceState) checkedAt(now time.Time) time.Time {
	if s.CheckedAt == nil {
		return now
	}
	return *s.CheckedAt
}

func (s SourceState) ready(now time.Time) desired.Condition {
	r := s.Latest
	switch {
	case s.GoneAt != nil:
		return s.condition("Ready", isFalse, "SourceRemoved", "the source is no longer configured; its objects stay unchanged", *s.GoneAt)
	case s.FaultSince != nil:
		return s.condition("Ready", isFalse, "Unreachable", s.Fault, *s.FaultSince)
	case s.CheckedAt == nil:
		return s.condition("Ready", unclear, "Progressing", "the source was not fetched yet", now)
	case s.headEvaluated() && r.Status == StatusInvalid:
		return s.condition("Ready", isFalse, "ValidationFailed", firstOf(r), r.UpdatedAt)
	case s.headEvaluated() && r.Status == StatusRejected:
		return s.condition("Ready", isFalse, "Rejected", firstOf(r), r.UpdatedAt)
	case s.headEvaluated() && r.Status == StatusWaiting:
		return s.condition("Ready", isFalse, "ApprovalRequired", waitsFor(r), r.UpdatedAt)
	case s.headEvaluated() && r.Status == StatusPlanned:
		return s.condition("Ready", isFalse, "Suspended", waitsFor(r), r.UpdatedAt)
	case s.Applied.Revision == 0:
		return s.condition("Ready", unclear, "Progressing", "no revision is applied yet", *s.CheckedAt)
	}
	return s.condition("Ready", isTrue, "Succeeded", fmt.Sprintf("revision %d is applied", s.Applied.Revision), s.Applied.AppliedAt)
}

// headEvaluated reports whether the latest revision is that of the branch, and not of a commit that the branch no longer
// has.
func (s SourceState) headEvaluated() bool {
	return s.Latest.Revision > 0 && s.Latest.Commit == s.Head && s.Latest.TreeHash == s.TreeHash
}

func (s SourceState) condition(kind, status, reason, message string, since time.Time) desired.Condition {
	return desired.Condition{Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: s.Applied.Revision, LastTransitionTime: since}
}

// Lag returns the time for which the branch has had a commit that is not applied, or could not be fetched.
func (s SourceState) Lag(now time.Time) time.Duration {
	if c := s.ready(now); s.GoneAt == nil && c.Status == isFalse {
		return now.Sub(c.LastTransitionTime)
	}
	return 0
}

func firstOf(r Revision) string {
	if len(r.Findings) == 0 {
		return "rejected"
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
