package cli

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/alloc"
)

func TestRunway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		balance, burn, more, want int64
		forever                   bool
	}{
		"balance by burn":               {balance: 7200, burn: 0, more: 3600, want: 7200},
		"with what burns already":       {balance: 7200, burn: 3600, more: 3600, want: 3600},
		"seconds are cut, not rounded":  {balance: 1, burn: 0, more: 1157, want: 3},
		"nothing is charged":            {balance: 1, forever: true},
		"no balance":                    {balance: 0, more: 1, want: 0},
		"overdrawn":                     {balance: -5, more: 1, want: 0},
		"nothing is charged, overdrawn": {balance: -5, want: 0},
		"beyond 63 bits":                {balance: math.MaxInt64, more: 1, want: math.MaxInt64},
		"a rate beyond 63 bits":         {balance: math.MaxInt64, burn: math.MaxInt64, more: math.MaxInt64, want: 1800},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := alloc.Runway(c.balance, c.burn, c.more)
			if ok == c.forever || got != c.want {
				t.Errorf("%d s, %v; want %d s, for ever: %v", got, ok, c.want, c.forever)
			}
		})
	}
}

// The runway is the longest whole time that the balance pays for.
func TestRunwayIsTight(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		balance := rapid.Int64Range(1, 1e12).Draw(t, "balance")
		rate := rapid.Int64Range(1, 1e6).Draw(t, "rate")
		s, ok := alloc.Runway(balance, 0, rate)
		if !ok || s*rate > balance*3600 || (s+1)*rate <= balance*3600 {
			t.Fatalf("%d s of %d per hour from %d", s, rate, balance)
		}
	})
}

func TestQuoteText(t *testing.T) {
	t.Parallel()
	sku := oapi.Sku{
		Name: "h100", DisplayName: "NVIDIA H100", MemoryGib: 80, Isolation: "host_user", MaxGpus: 8, Price: eur(289), Free: 11,
		Regions: []oapi.SkuRegion{{Region: "eu-1", Total: 16, Free: 10}, {Region: "us-1", Total: 8, Free: 1}},
	}
	rich := oapi.Balance{AmountMinor: 100000, Currency: "EUR"}
	free := sku
	free.Price = eur(0)
	for name, c := range map[string]struct {
		q    alloc.Quote
		want []string
	}{
		"any region counts all":     {alloc.Quote{Sku: sku, GPUs: 1, Balance: rich}, []string{"GPUs     1 of 11 free", "any   (eu-1: 10 of 16 free, us-1: 1 of 8 free)", "Lasts    14d 10h with this allocation"}},
		"one region counts its own": {alloc.Quote{Sku: sku, GPUs: 2, Region: "us-1", Balance: rich}, []string{"GPUs     2 of 1 free", "! warning: only 1 of them are free now"}},
		"a region that is not":      {alloc.Quote{Sku: sku, GPUs: 1, Region: "moon", Balance: rich}, []string{"1 of 0 free"}},
		"a lease bounds the cost":   {alloc.Quote{Sku: sku, GPUs: 1, TTL: 90 * time.Minute, Balance: rich}, []string{"At most  EUR 4.33   for 1h 30m"}},
		"too many for one":          {alloc.Quote{Sku: sku, GPUs: 9, Balance: rich}, []string{"warning: one allocation has at most 8 GPUs"}},
		"too poor":                  {alloc.Quote{Sku: sku, GPUs: 1, Balance: oapi.Balance{AmountMinor: 288, Currency: "EUR"}}, []string{"warning: the balance does not cover one hour", "Lasts    59m 47s"}},
		"no balance":                {alloc.Quote{Sku: sku, GPUs: 1, Balance: oapi.Balance{Currency: "EUR"}}, []string{"no time: there is no balance"}},
		"free of charge":            {alloc.Quote{Sku: free, GPUs: 1, Balance: rich}, []string{"unlimited: nothing is charged"}},
		"another currency":          {alloc.Quote{Sku: sku, GPUs: 1, Balance: oapi.Balance{AmountMinor: 5, Currency: "USD"}}, []string{"unknown: the price is in EUR, the balance in USD"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := c.q.Text()
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
		})
	}
	if _, err := (alloc.Quote{Sku: oapi.Sku{Price: eur(math.MaxInt64)}, GPUs: 9}).Text(); err == nil {
		t.Error("an amount beyond 63 bits was quoted")
	}
}
