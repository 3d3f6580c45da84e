package response

import (
	"strconv"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/money"
)

// OrNil returns nil for the zero value, which JSON then omits.
func OrNil[T comparable](v T) *T {
	var empty T
	if v == empty {
		return nil
	}
	return &v
}

// UTC returns the time in UTC; nil stays nil.
func UTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// Later returns the latest of several times in UTC. A nil time does not count.
func Later(t time.Time, others ...*time.Time) time.Time {
	for _, o := range others {
		if o != nil && o.After(t) {
			t = *o
		}
	}
	return t.UTC()
}

// Money encodes an amount.
func Money(m money.Minor, currency string) oapi.Money {
	return oapi.Money{AmountMinor: int64(m), Currency: currency}
}

// Timestamp encodes a time as a cell of an export.
func Timestamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Minor encodes an amount as a cell of an export.
func Minor(m money.Minor) string { return strconv.FormatInt(int64(m), 10) }

// Labels returns an empty map for nil, which is {} in JSON and not null.
func Labels(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// OrEmpty returns an empty list for nil, which is [] in JSON and not null.
func OrEmpty[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}

// Scopes encodes the names of scopes.
func Scopes(names []string) []oapi.Scope {
	scopes := make([]oapi.Scope, len(names))
	for i, n := range names {
		scopes[i] = oapi.Scope(n)
	}
	return scopes
}
