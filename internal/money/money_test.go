package money_test

import (
	"errors"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/internal/money"
)

// INV-30, INV-37: any cutting of time sums to the same amount, and nothing wraps.
func TestINV30DueTelescopes(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		price := rapid.Int64Range(0, math.MaxInt64).Draw(t, "price")
		units := rapid.Int64Range(0, 1<<20).Draw(t, "units")
		seconds := rapid.Int64Range(0, 1<<40).Draw(t, "seconds")

		got, err := money.Due(money.Minor(price), units, seconds)
		want := new(big.Int).Mul(big.NewInt(price), big.NewInt(units))
		want.Mul(want, big.NewInt(seconds)).Div(want, big.NewInt(3600))
		switch {
		case err == nil && (!want.IsInt64() || want.Int64() != int64(got)):
			t.Fatalf("got %d, want %s", got, want)
		case err != nil && want.IsInt64() && new(big.Int).Mul(big.NewInt(price), big.NewInt(units)).IsUint64():
			t.Fatalf("%s fits, but: %v", want, err)
		}
	})
}

func TestINV37AddRejectsToWrap(t *testing.T) {
	t.Parallel()

	for _, c := range [][2]money.Minor{{math.MaxInt64, 1}, {math.MinInt64, -1}} {
		if _, err := money.Add(c[0], c[1]); !errors.Is(err, money.ErrOverflow) {
			t.Errorf("%d + %d: %v", c[0], c[1], err)
		}
	}
	if got, err := money.Add(5, -7); err != nil || got != -2 {
		t.Errorf("5 - 7 = %d, %v", got, err)
	}
}

// INV-37: near ±2⁶² and the limits of the type, a sum is exact or an error.
func TestINV37AddIsExactNearTheEnds(t *testing.T) {
	t.Parallel()

	near := rapid.OneOf(rapid.Int64Range(1<<62-9, 1<<62+9), rapid.Int64Range(-1<<62-9, -1<<62+9), rapid.Int64Range(-9, 9), rapid.Int64())
	rapid.Check(t, func(t *rapid.T) {
		a, b := near.Draw(t, "a"), near.Draw(t, "b")
		got, err := money.Add(money.Minor(a), money.Minor(b))
		want := new(big.Int).Add(big.NewInt(a), big.NewInt(b))
		if want.IsInt64() != (err == nil) || err == nil && int64(got) != want.Int64() {
			t.Fatalf("%d + %d is %d, want %s: %v", a, b, got, want, err)
		}
	})
}

func TestFormat(t *testing.T) {
	t.Parallel()

	for m, want := range map[money.Minor]string{0: "EUR 0.00", 1234: "EUR 12.34", -5: "EUR -0.05", math.MinInt64: "EUR -92233720368547758.08"} {
		if got := money.Format("EUR", m); got != want {
			t.Errorf("%d: %q, want %q", m, got, want)
		}
	}
}
