package output

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Symbols are never used alone: a text follows each.
const (
	SymbolGood = "✓"
	SymbolBad  = "✗"
	SymbolWarn = "!"
	SymbolBusy = "…"
)

func Amount(m oapi.Money) string { return money.Format(m.Currency, money.Minor(m.AmountMinor)) }

// FormatSeconds is a length of time in its two largest units: "7d 3h".
func FormatSeconds(seconds int64) string {
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

// Age is short, for a column. A clock that is behind the server's shows no
// negative time.
func Age(now, since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	text, _, _ := strings.Cut(FormatSeconds(max(0, int64(now.Sub(since)/time.Second))), " ")
	return text
}

// BornAt reads the time out of an id: all ids are UUIDv7.
func BornAt(id uuid.UUID) time.Time {
	if id.Version() != 7 {
		return time.Time{}
	}
	seconds, nanos := id.Time().UnixTime()
	return time.Unix(seconds, nanos).UTC()
}

func Itoa(n int64) string { return strconv.FormatInt(n, 10) }

func OrDash(s string) string { return cmp.Or(s, "-") }

func ValueOrZero[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// PointerOrNil is a pointer for an optional parameter: nil when it was not given.
func PointerOrNil[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// ConditionSymbol is a condition's status with its symbol.
func ConditionSymbol(status oapi.ConditionStatus) string {
	switch status {
	case oapi.ConditionStatusTrue:
		return SymbolGood + " True"
	case oapi.ConditionStatusFalse:
		return SymbolBad + " False"
	case oapi.ConditionStatusUnknown:
	}
	return "? Unknown"
}

func Condition(of []oapi.Condition, name string) (oapi.Condition, bool) {
	for _, c := range of {
		if string(c.Type) == name {
			return c, true
		}
	}
	return oapi.Condition{}, false
}

// ConditionsOf returns the conditions of an object document, which spells its keys in another way.
func ConditionsOf(status oapi.ObjectStatus) []oapi.Condition {
	all := make([]oapi.Condition, len(status.Conditions))
	for i, c := range status.Conditions {
		all[i] = oapi.Condition(c)
	}
	return all
}

func IsTrue(of []oapi.Condition, name string) bool {
	c, ok := Condition(of, name)
	return ok && c.Status == oapi.ConditionStatusTrue
}

// ParseSpan reads a length of time, in which days may be named: leases are
// longer than hours, and time.ParseDuration stops at those.
func ParseSpan(text string) (time.Duration, error) {
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

func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// IdOf reads an id, also with the kind before it as -o name prints it.
func IdOf(ref string) (uuid.UUID, string, bool) {
	if _, after, found := strings.Cut(ref, "/"); found {
		ref = after
	}
	id, err := uuid.Parse(ref)
	return id, ref, err == nil
}

// ShowSecret prints a secret that cannot be read again. It prints the secret alone on stdout, so
// that a script can read it, and all else on stderr.
func (a *Console) ShowSecret(raw []byte, secret, of string) error {
	a.Notify("%s %s: the secret is printed only once. Store it in a safe place.", SymbolWarn, of)
	if a.Data() {
		return a.Show(raw, Table{})
	}
	if _, err := fmt.Fprintln(a.Out, secret); err != nil {
		return fmt.Errorf("writing result: %w", err)
	}
	return nil
}

// ParseTTL reads how long something is good for; left out, without end.
func ParseTTL(text string) (*int64, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // left out is a value: without end
	}
	d, err := ParseSpan(text)
	if err != nil {
		return nil, UsageError("--ttl: %v", err)
	}
	seconds := int64(d / time.Second)
	return &seconds, nil
}

func Scopes(names []string) []oapi.Scope {
	all := make([]oapi.Scope, len(names))
	for i, n := range names {
		all[i] = oapi.Scope(n)
	}
	return all
}

const ScopeUsage = "scope, for example allocations:read; may be repeated"

func ScopeList(all []oapi.Scope, none string) string {
	names := make([]string, len(all))
	for i, s := range all {
		names[i] = string(s)
	}
	return cmp.Or(strings.Join(names, ","), none)
}

// FlagOrNil is a flag's value if it was given at all, also an empty one.
func FlagOrNil[T any](cmd *cobra.Command, flag string, value T) *T {
	if !cmd.Flags().Changed(flag) {
		return nil
	}
	return &value
}

// CellText makes a text of another author safe for a table and a terminal.
func CellText(text string) string {
	return OrDash(OneLine(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)))
}

// Ago formats the time since the last use.
func Ago(now time.Time, at *time.Time) string {
	if at == nil {
		return "never"
	}
	return Age(now, *at)
}

func LastUse(now time.Time, at *time.Time) string {
	if at == nil {
		return "never used"
	}
	return "last used " + Age(now, *at) + " ago"
}

func ExpiryText(at *time.Time) string { return FormatTime(ValueOrZero(at)) }

func FormatTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func CountOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func ParseAmount(currency string, amount int64) string {
	return money.Format(currency, money.Minor(amount))
}

// ParseTime reads a time, a day, or a length of time before now.
func (a *Console) ParseTime(flag, text string) (*time.Time, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // left out is a value: the server's default
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return &t, nil
		}
	}
	span, err := ParseSpan(text)
	if err != nil {
		return nil, UsageError("%s: %q is no time like 2026-01-05T09:00:00Z, 2026-01-05 or 7d", flag, text)
	}
	t := a.Clock.Now().Add(-span)
	return &t, nil
}
