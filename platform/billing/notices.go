package billing

import (
	"time"

	"github.com/gpuaas/gpuaas/internal/money"
)

// State is what a tenant has been told about its money.
type State struct {
	LowSince     *time.Time // the crossing; nil while the balance is at the threshold or above
	LowToldAt    *time.Time
	PendingSince *time.Time // release for lack of money is announced
	ReleasesAt   *time.Time // as it was announced
	DepletedAt   *time.Time // everything was released; nil since there is money again
}

// Reading is a tenant's money at a moment, and what policy makes of it.
type Reading struct {
	Balance  money.Minor
	Burn     money.Minor // per hour
	Released bool        // for lack of money, just now
	Now      time.Time
	Terms
}

// Terms are the policy values by which a tenant is told.
type Terms struct {
	Threshold money.Minor   // below it the balance is low
	Reminder  time.Duration // until a low balance is told again
	Grace     time.Duration // a shorter runway is announced
}

// Notice is one thing that a tenant is told.
type Notice string

// The notices.
const (
	LowBalance     Notice = "low_balance"
	ReleasePending Notice = "auto_release_pending"
	ReleaseCleared Notice = "auto_release_cleared"
	Depleted       Notice = "balance_depleted"
)

// Next is what a tenant is told now, and what it has been told then. Whatever is
// told stays told until it no longer holds: reading the same again says nothing.
func Next(s State, r Reading) (State, []Notice) {
	var told []Notice
	if s.low(r) {
		told = append(told, LowBalance)
	}
	if n := s.announce(r); n != "" {
		told = append(told, n)
	}
	switch {
	case r.Released:
		s.DepletedAt = &r.Now
		told = append(told, Depleted)
	case r.Balance > 0:
		s.DepletedAt = nil
	}
	return s, told
}

// low follows the threshold. One reminder is for those whose balance still falls:
// nobody needs to be told every day of money that nothing uses.
func (s *State) low(r Reading) (told bool) {
	switch {
	case r.Balance >= r.Threshold:
		s.LowSince, s.LowToldAt = nil, nil
		return false
	case s.LowSince == nil:
		s.LowSince = &r.Now
	case r.Burn <= 0 || s.LowToldAt != nil && r.Now.Before(s.LowToldAt.Add(r.Reminder)):
		return false
	}
	s.LowToldAt = &r.Now
	return true
}

// announce follows the runway. The deadline that was told is kept: people plan by
// it, while the balance itself says how it moves.
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

// longest is a runway that nobody waits for: more does not fit a Duration.
const longest = 100 * 365 * 24 * time.Hour

// runway is how long a balance lasts; it has no end while nothing is burnt.
func runway(balance, burn money.Minor) (left time.Duration, ends bool) {
	seconds, ends := money.Lasts(balance, burn)
	return time.Duration(min(seconds, int64(longest/time.Second))) * time.Second, ends
}
