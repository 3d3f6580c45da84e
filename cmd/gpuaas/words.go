package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/money"
)

// A symbol never stands alone: the word after it says the same.
const (
	symbolGood = "✓"
	symbolBad  = "✗"
	symbolWarn = "!"
	symbolBusy = "…"
)

func amount(m oapi.Money) string { return money.Format(m.Currency, money.Minor(m.AmountMinor)) }

// lasting is a length of time in its two largest units: "7d 3h".
func lasting(seconds int64) string {
	const day = 24 * 3600
	if seconds > 3650*day {
		return "more than 10 years"
	}
	units := []struct {
		size int64
		name string
	}{{day, "d"}, {3600, "h"}, {60, "m"}, {1, "s"}}
	for i, u := range units {
		if n := seconds / u.size; n > 0 {
			text := strconv.FormatInt(n, 10) + u.name
			if i+1 < len(units) {
				if rest := seconds % u.size / units[i+1].size; rest > 0 {
					text += " " + strconv.FormatInt(rest, 10) + units[i+1].name
				}
			}
			return text
		}
	}
	return "0s"
}

// age is short, for a column. A clock that is behind the server's shows no
// negative time.
func age(now, since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	text, _, _ := strings.Cut(lasting(max(0, int64(now.Sub(since)/time.Second))), " ")
	return text
}

// bornAt reads the time out of an id: all ids are UUIDv7.
func bornAt(id uuid.UUID) time.Time {
	if id.Version() != 7 {
		return time.Time{}
	}
	seconds, nanos := id.Time().UnixTime()
	return time.Unix(seconds, nanos).UTC()
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func orDash(s string) string { return cmp.Or(s, "-") }

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// set is a pointer for an optional parameter: nil when it was not given.
func set[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// truth is a condition's status with its symbol.
func truth(status oapi.ConditionStatus) string {
	switch status {
	case oapi.ConditionStatusTrue:
		return symbolGood + " True"
	case oapi.ConditionStatusFalse:
		return symbolBad + " False"
	case oapi.ConditionStatusUnknown:
	}
	return "? Unknown"
}

func condition(of []oapi.Condition, name string) (oapi.Condition, bool) {
	for _, c := range of {
		if c.Type == name {
			return c, true
		}
	}
	return oapi.Condition{}, false
}

func holds(of []oapi.Condition, name string) bool {
	c, ok := condition(of, name)
	return ok && c.Status == oapi.ConditionStatusTrue
}

// parseSpan reads a length of time, in which days may be named: leases are
// longer than hours, and time.ParseDuration stops at those.
func parseSpan(text string) (time.Duration, error) {
	var days int64
	rest := text
	if number, after, found := strings.Cut(text, "d"); found {
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 32)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%q is no length of time like 90m, 12h or 7d", text)
		}
		days, rest = n, strings.TrimSpace(after)
	}
	d := time.Duration(0)
	if rest != "" || days == 0 {
		var err error
		if d, err = time.ParseDuration(rest); err != nil || d < 0 {
			return 0, fmt.Errorf("%q is no length of time like 90m, 12h or 7d", text)
		}
	}
	if days > 36500 {
		return 0, fmt.Errorf("%q is longer than a century", text)
	}
	return time.Duration(days)*24*time.Hour + d, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
