package notification

import (
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Minute is a minute of the day, as a clock shows it.
type Minute int16

// ParseMinute reads a time such as 22:00.
func ParseMinute(field, text string) (Minute, error) {
	at, err := time.Parse("15:04", text)
	if err != nil {
		return 0, errs.Invalid(field, "%q is no time of the day", text).Try("write it as 22:00")
	}
	return minuteOf(at), nil
}

const minutesPerHour = 60

func minuteOf(at time.Time) Minute {
	return Minute(at.Hour()*minutesPerHour + at.Minute()) //nolint:gosec // at most 1,439
}

func (m Minute) String() string { return fmt.Sprintf("%02d:%02d", m/minutesPerHour, m%minutesPerHour) }

// Quiet are quiet hours: the minutes from Start to End, which is of the next day if it precedes Start.
type Quiet struct{ Start, End Minute }

func (q *Quiet) start() any { return q.bound(func() Minute { return q.Start }) }
func (q *Quiet) end() any   { return q.bound(func() Minute { return q.End }) }

func (q *Quiet) bound(of func() Minute) any {
	if q == nil {
		return nil
	}
	return int16(of())
}

// until returns the end of the quiet hours that contain a time, and the time itself outside of them. The clock of the zone
// decides: an hour that a change of the clock repeats is quiet twice, and quiet hours that end in a skipped hour end with it.
func (q *Quiet) until(at time.Time, zone *time.Location) time.Time {
	if q == nil {
		return at
	}
	local := at.In(zone)
	minute := minuteOf(local)
	inside, days := minute >= q.Start && minute < q.End, 0
	if q.Start > q.End {
		inside = minute >= q.Start || minute < q.End
		if minute >= q.Start {
			days = 1
		}
	}
	if !inside {
		return at
	}
	end := clockTime(local, days, q.End)
	// In the first of two equal hours, the end by the clock may lie before the time.
	for !end.After(at) {
		end = end.Add(time.Hour)
	}
	return end
}

// dailyAt is the time of daily digests.
const dailyAt Minute = 8 * minutesPerHour

// due returns when an e-mail that is ready now is sent.
func due(v Value, now time.Time, zone *time.Location, quiet *Quiet) time.Time {
	at := now
	switch v {
	case Hourly:
		at = now.Truncate(time.Hour).Add(time.Hour)
	case Daily:
		at = clockTime(now.In(zone), 0, dailyAt)
		for days := 1; !at.After(now); days++ { // a zone has skipped a day once
			at = clockTime(now.In(zone), days, dailyAt)
		}
	case Now, Off:
	}
	return quiet.until(at, zone).UTC()
}

// clockTime returns the time at which the clock shows a minute, some days after a time. If the clock skips the minute, this
// is the time of its change.
func clockTime(local time.Time, days int, m Minute) time.Time {
	at := time.Date(local.Year(), local.Month(), local.Day()+days, int(m/minutesPerHour), int(m%minutesPerHour), 0, 0, local.Location())
	began, ends := at.ZoneBounds()
	switch shown := minuteOf(at); {
	case shown > m:
		return began
	case shown < m:
		return ends
	}
	return at
}
