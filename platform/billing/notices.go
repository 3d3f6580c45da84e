package billing

import (
	"time"

	"github.com/gpuaas/gpuaas/internal/money"
)

// State is the notice state of a tenant: the notices that were sent and still apply.
type State struct {
	LowSince        *time.Time // the crossing; nil while the balance is at the threshold or above
	LowNotifiedAt   *time.Time
	PendingSince    *time.Time // release for lack of money is announced
	ReleasesAt      *time.Time // as it was announced
	DepletedAt      *time.Time // everything was released; nil since there is money again
	FilesDeleteAt   *time.Time // the files are deleted for lack of money
	FilesNotifiedAt *time.Time // the last notice of it
}

// Reading is a tenant's money at a moment, and what policy makes of it.
type Reading struct {
	Balance      money.Minor
	Burn         money.Minor // per hour
	Released     bool        // for lack of money, just now
	Stored       int64       // bytes of files that cost something; read only without a balance
	FilesDeleted bool        // for lack of money, just now
	Now          time.Time
	Terms
}

// Terms are the policy values that decide about notices.
type Terms struct {
	Threshold  money.Minor   // below it the balance is low
	Reminder   time.Duration // until the notice of a low balance is repeated
	Grace      time.Duration // a shorter runway is announced
	FilesGrace time.Duration // from an empty balance to the deletion of files
}

// Notice is the type of a balance notice.
type Notice string

// The notices.
const (
	LowBalance     Notice = "low_balance"
	ReleasePending Notice = "auto_release_pending"
	ReleaseCleared Notice = "auto_release_cleared"
	Depleted       Notice = "balance_depleted"
)

// Next returns the new notice state and the notices to send. A notice stays in effect until its
// condition ends, so the same reading twice sends nothing.
func Next(s State, r Reading) (State, []Notice) {
	var notices []Notice
	if s.low(r) {
		notices = append(notices, LowBalance)
	}
	if n := s.announce(r); n != "" {
		notices = append(notices, n)
	}
	switch {
	case r.Released:
		s.DepletedAt = &r.Now
		notices = append(notices, Depleted)
	case r.Balance > 0:
		s.DepletedAt = nil
	}
	if n := s.files(r); n != "" {
		notices = append(notices, n)
	}
	return s, notices
}

// low compares the balance with the threshold. It sends one reminder, and only while the balance falls.
// A daily reminder about a balance that nothing uses would have no effect.
func (s *State) low(r Reading) (notices bool) {
	switch {
	case r.Balance >= r.Threshold:
		s.LowSince, s.LowNotifiedAt = nil, nil
		return false
	case s.LowSince == nil:
		s.LowSince = &r.Now
	case r.Burn <= 0 || s.LowNotifiedAt != nil && r.Now.Before(s.LowNotifiedAt.Add(r.Reminder)):
		return false
	}
	s.LowNotifiedAt = &r.Now
	return true
}

// announce compares the runway with the grace time. The announced deadline stays unchanged, because
// tenants plan with it; the balance itself shows how it moves.
func (s *State) announce(r Reading) Notice {
	left, ends := runway(r.Balance, r.Burn)
	short := ends && r.Balance > 0 && left < r.Grace
	switch {
	case short && s.PendingSince == nil:
		at := r.Now.Add(left)
		s.PendingSince, s.ReleasesAt = &r.Now, &at
		return ReleasePending
	case short, s.PendingSince == nil:
		return ""
	}
	s.PendingSince, s.ReleasesAt = nil, nil
	if r.Released {
		return "" // it came to what was announced
	}
	return ReleaseCleared
}

// longest is the maximum runway. A longer one does not fit a Duration.
const longest = 100 * 365 * 24 * time.Hour

// runway returns the balance divided by the burn rate. Without a burn rate it has no end.
func runway(balance, burn money.Minor) (left time.Duration, ends bool) {
	seconds, ends := money.Lasts(balance, burn)
	return time.Duration(min(seconds, int64(longest/time.Second))) * time.Second, ends
}
