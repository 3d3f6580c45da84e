// Package clock is the only place that reads the time, so that tests own it.
package clock

import "time"

// Clock returns the time. The zero value is the wall clock.
type Clock struct{ now func() time.Time }

// At returns a clock that a test moves by changing what now returns.
func At(now func() time.Time) Clock { return Clock{now} }

// Now is the present time in UTC.
func (c Clock) Now() time.Time {
	if c.now != nil {
		return c.now().UTC()
	}
	return time.Now().UTC()
}
