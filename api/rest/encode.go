package rest

import (
	"strconv"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/money"
)

// or is the value that was sent, else the one meant by leaving it out.
func or[T any](sent *T, meant T) T {
	if sent == nil {
		return meant
	}
	return *sent
}

// filled is left out of JSON when there is nothing to say.
func filled[T comparable](v T) *T {
	var empty T
	if v == empty {
		return nil
	}
	return &v
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

func amount(m money.Minor, currency string) oapi.Money {
	return oapi.Money{AmountMinor: int64(m), Currency: currency}
}

// at and minor are cells of an export.
func at(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func minor(m money.Minor) string { return strconv.FormatInt(int64(m), 10) }

// words and orEmpty are {} and [] in JSON, never null.
func words(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func orEmpty[T any](l []T) []T {
	if l == nil {
		return []T{}
	}
	return l
}
