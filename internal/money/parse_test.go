package money_test

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/internal/money"
)

func TestParse(t *testing.T) {
	t.Parallel()

	for text, want := range map[string]money.Minor{
		"50": 5000, "50.00": 5000, "0.5": 50, "12.34": 1234, "EUR 50": 5000, "eur 0.05": 5, "EUR -25": -2500, "-0.01": -1, " 7 ": 700, "EUR  7": 700,
		"0.29": 29, "1.10": 110, "92233720368547758.07": math.MaxInt64, "-92233720368547758.08": math.MinInt64,
	} {
		if _, got, err := money.Parse(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "-", ".", "5.", ".5", "50,00", "1,000", "1_000", "1e3", "0x10", "+5", "--5", "5.001", "EURO 5", "E1R 5", "€ 5", "EUR5", "5 EUR", "EUR 5 6", "EUR", "5.-1", "٣",
	} {
		if _, got, err := money.Parse(text); err == nil {
			t.Errorf("%q is parsed as %d", text, got)
		}
	}
	if _, _, err := money.Parse("92233720368547758.08"); !errors.Is(err, money.ErrOverflow) {
		t.Errorf("one above the largest: %v", err)
	}
}

// INV-37: what is printed is read back to the same minor unit.
func TestINV37ParseIsTheOppositeOfFormat(t *testing.T) {
	t.Parallel()

	rapid.Check(t, func(t *rapid.T) {
		m := money.Minor(rapid.Int64().Draw(t, "minor"))
		if currency, got, err := money.Parse(money.Format("EUR", m)); err != nil || got != m || currency != "EUR" {
			t.Fatalf("%s: %s %d, %v", money.Format("EUR", m), currency, got, err)
		}
	})
}
