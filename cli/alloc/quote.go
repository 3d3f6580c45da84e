package alloc

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Quote is the cost that the user confirms before the request.
type Quote struct {
	Sku     oapi.Sku
	GPUs    int
	Region  string // empty: any
	TTL     time.Duration
	Balance oapi.Balance // empty: not for everyone's eyes
}

// quoted is the quote as data.
type quoted struct {
	Sku           string        `json:"sku"`
	Region        string        `json:"region,omitempty"`
	Gpus          int           `json:"gpus"`
	Free          int           `json:"free"`
	PricePerHour  oapi.Money    `json:"price_per_hour"`
	Balance       *oapi.Balance `json:"balance,omitempty"`
	RunwaySeconds *int64        `json:"runway_seconds,omitempty"`
	CostAtMost    *oapi.Money   `json:"cost_at_most,omitempty"`
}

func (q Quote) data() (quoted, error) {
	perHour, err := q.over(3600)
	if err != nil {
		return quoted{}, err
	}
	d := quoted{
		Sku: q.Sku.Name, Region: q.Region, Gpus: q.GPUs, Free: q.free(), Balance: output.PointerOrNil(q.Balance),
		PricePerHour: oapi.Money{AmountMinor: int64(perHour), Currency: q.Sku.Price.Currency},
	}
	if q.Balance.Currency == q.Sku.Price.Currency {
		if seconds, ok := Runway(q.Balance.AmountMinor, q.Balance.BurnPerHourMinor, int64(perHour)); ok {
			d.RunwaySeconds = &seconds
		}
	}
	if q.TTL > 0 {
		most, err := q.over(int64(q.TTL / time.Second))
		if err != nil {
			return quoted{}, err
		}
		d.CostAtMost = &oapi.Money{AmountMinor: int64(most), Currency: q.Sku.Price.Currency}
	}
	return d, nil
}

func (q Quote) over(seconds int64) (money.Minor, error) {
	due, err := money.Due(money.Minor(q.Sku.Price.AmountMinor), int64(q.GPUs), seconds)
	if err != nil {
		return 0, fmt.Errorf("pricing %d × %s: %w", q.GPUs, q.Sku.Name, err)
	}
	return due, nil
}

// free counts where it may be placed: in the region that was named, or in all.
func (q Quote) free() int {
	if q.Region == "" {
		return q.Sku.Free
	}
	for _, r := range q.Sku.Regions {
		if r.Region == q.Region {
			return r.Free
		}
	}
	return 0
}

// Runway returns how long a balance lasts with an additional burn rate; not ok if it never ends.
func Runway(balance, burn, more int64) (seconds int64, ok bool) {
	if balance <= 0 {
		return 0, true
	}
	rate := uint64(max(0, burn)) + uint64(max(0, more))
	if rate == 0 {
		return 0, false
	}
	hi, lo := bits.Mul64(uint64(balance), 3600)
	if hi >= rate {
		return math.MaxInt64, true
	}
	s, _ := bits.Div64(hi, lo, rate)
	return int64(min(s, math.MaxInt64)), true
}

// Text formats the quote, with warnings about likely errors of the server. Only the server decides,
// so a warning stops nothing.
func (q Quote) Text() (string, error) {
	d, err := q.data()
	if err != nil {
		return "", err
	}
	lines := [][2]string{
		{"SKU", fmt.Sprintf("%s   %s, %d GiB each, %s", q.Sku.Name, q.Sku.DisplayName, q.Sku.MemoryGib, q.Sku.Isolation)},
		{"Region", q.regions()},
		{"GPUs", fmt.Sprintf("%d of %d free", q.GPUs, d.Free)},
		{"Price", fmt.Sprintf("%s per hour   (%d × %s)", output.Amount(d.PricePerHour), q.GPUs, output.Amount(q.Sku.Price))},
	}
	if d.CostAtMost != nil {
		lines = append(lines, [2]string{"At most", fmt.Sprintf("%s   for %s", output.Amount(*d.CostAtMost), output.FormatSeconds(int64(q.TTL/time.Second)))})
	}
	lines = append(lines, q.means(d)...)

	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%-9s%s\n", l[0], l[1])
	}
	for _, w := range q.warnings(d) {
		fmt.Fprintf(&b, "%s %s\n", output.SymbolWarn, w)
	}
	return b.String(), nil
}

// means returns the tenant's balance and limits, for users who may read them.
func (q Quote) means(d quoted) [][2]string {
	if d.Balance == nil {
		return [][2]string{{"Balance", "not visible to you; the server checks it"}}
	}
	balance := money.Format(q.Balance.Currency, money.Minor(q.Balance.AmountMinor))
	burn := money.Format(q.Balance.Currency, money.Minor(q.Balance.BurnPerHourMinor))
	return [][2]string{{"Balance", fmt.Sprintf("%s   (now burning %s per hour)", balance, burn)}, {"Lasts", q.lasts(d)}}
}

func (q Quote) lasts(d quoted) string {
	switch {
	case q.Balance.Currency != d.PricePerHour.Currency:
		return fmt.Sprintf("unknown: the price is in %s, the balance in %s", d.PricePerHour.Currency, q.Balance.Currency)
	case d.RunwaySeconds == nil:
		return "unlimited: nothing is charged"
	case *d.RunwaySeconds == 0:
		return "no time: there is no balance"
	default:
		return output.FormatSeconds(*d.RunwaySeconds) + " with this allocation"
	}
}

func (q Quote) regions() string {
	if q.Region != "" {
		return q.Region
	}
	var all []string
	for _, r := range q.Sku.Regions {
		all = append(all, fmt.Sprintf("%s: %d of %d free", r.Region, r.Free, r.Total))
	}
	if len(all) == 0 {
		return "any"
	}
	return "any   (" + strings.Join(all, ", ") + ")"
}

func (q Quote) warnings(d quoted) []string {
	var all []string
	if q.GPUs > d.Free {
		all = append(all, fmt.Sprintf("warning: only %d of them are free now", d.Free))
	}
	if q.GPUs > q.Sku.MaxGpus {
		all = append(all, fmt.Sprintf("warning: one allocation has at most %d GPUs of this SKU", q.Sku.MaxGpus))
	}
	if q.Balance.Currency == d.PricePerHour.Currency && q.Balance.AmountMinor < d.PricePerHour.AmountMinor {
		all = append(all, "warning: the balance does not cover one hour")
	}
	return all
}
