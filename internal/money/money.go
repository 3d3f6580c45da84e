// Package money calculates with integers of a currency's minor unit. Every operation that could
// overflow returns an error; no result wraps.
package money

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// ErrOverflow means that an amount does not fit into 63 bits.
var ErrOverflow = errors.New("amount overflows")

// Minor is an amount in minor units (cents of EUR).
type Minor int64

// Add returns a+b.
func Add(a, b Minor) (Minor, error) {
	sum := a + b
	if (sum > a) != (b > 0) && b != 0 {
		return 0, ErrOverflow
	}
	return sum, nil
}

// Due returns the charge for an hourly price after seconds: price × units × seconds ÷
// 3600. The differences between any points in time sum to the same amount. Arguments must not be
// negative.
func Due(pricePerHour Minor, units, seconds int64) (Minor, error) {
	if pricePerHour < 0 || units < 0 || seconds < 0 {
		return 0, fmt.Errorf("price %d × %d × %d s: negative", pricePerHour, units, seconds)
	}
	hi, perHour := bits.Mul64(uint64(pricePerHour), uint64(units))
	if hi != 0 {
		return 0, ErrOverflow
	}
	hi, lo := bits.Mul64(perHour, uint64(seconds))
	if hi >= 3600 {
		return 0, ErrOverflow
	}
	due, _ := bits.Div64(hi, lo, 3600)
	if due > math.MaxInt64 {
		return 0, ErrOverflow
	}
	return Minor(due), nil
}

// Format prints an amount as people read it: "EUR 12.34". Every currency this
// product sells in has two decimals.
func Format(currency string, m Minor) string {
	sign, abs := "", uint64(m) //nolint:gosec // negated again below, as two's complement
	if m < 0 {
		sign, abs = "-", -abs
	}
	return fmt.Sprintf("%s %s%d.%02d", currency, sign, abs/100, abs%100)
}

// Lasts returns the runway: the seconds that a balance covers at an hourly burn rate, rounded down,
// and zero for an empty balance. Without a burn rate the runway has no end.
func Lasts(balance, perHour Minor) (seconds int64, ends bool) {
	switch {
	case perHour <= 0:
		return 0, false
	case balance <= 0:
		return 0, true
	}
	hi, lo := bits.Mul64(uint64(balance), 3600)
	if hi >= uint64(perHour) {
		return math.MaxInt64, true
	}
	whole, _ := bits.Div64(hi, lo, uint64(perHour))
	return int64(min(whole, math.MaxInt64)), true
}
