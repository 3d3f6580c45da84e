package preview

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

// hour is one hour in seconds.
const hour = 3600

// book adds up by currency, and notes what cannot be counted.
type book struct {
	sums   map[string]money.Minor
	broken bool
}

func newBook(from map[string]money.Minor) *book {
	b := &book{sums: map[string]money.Minor{}}
	maps.Copy(b.sums, from)
	return b
}

func (b *book) add(currency string, m money.Minor) {
	sum, err := money.Add(b.sums[currency], m)
	b.broken = b.broken || err != nil
	b.sums[currency] = sum
}

// perHour is a price for so many units.
func (b *book) perHour(price money.Minor, units int) money.Minor {
	due, err := money.Due(price, int64(units), hour)
	b.broken = b.broken || err != nil
	return due
}

// prices returns the catalogue's prices before and after the change. An object that is not applied
// yet counts with its desired price.
func (e effect) prices() (before, after map[string]Price) {
	before = maps.Clone(e.inputs.Prices)
	if before == nil {
		before = map[string]Price{}
	}
	for _, p := range slices.Concat(e.changed, e.adopted) {
		if _, known := before[p.Old.Name]; !known && p.Old.Kind == desired.KindSKU {
			before[p.Old.Name] = priceOf(p.Old)
		}
	}
	after = maps.Clone(before)
	for _, p := range slices.Concat(e.changed, e.adopted) {
		if p.New.Kind == desired.KindSKU {
			after[p.New.Name] = priceOf(p.New)
		}
	}
	for _, o := range e.created {
		if o.Kind == desired.KindSKU {
			after[o.Name] = priceOf(o)
		}
	}
	for sku := range e.dropped {
		price := after[sku]
		price.Active = false
		after[sku] = price
	}
	return before, after
}

func priceOf(o desired.Object) Price {
	s := specOf[desired.SKU](o)
	return Price{s.Price.Currency, money.Minor(s.Price.AmountMinor), s.Active}
}

// stock returns the slots of the fleet after the change: a deleted node removes its slots.
func (e effect) stock() map[string]Stock {
	after := maps.Clone(e.inputs.Stock)
	if after == nil {
		after = map[string]Stock{}
	}
	move := func(sku string, sold, open int) {
		s := after[sku]
		after[sku] = Stock{s.Sold + sold, s.Open + open}
	}
	for _, n := range e.touchedNodes() {
		move(n.SKU, -n.Stock.Sold, -n.open(n.Cordoned))
	}
	for _, p := range slices.Concat(e.changed, e.adopted) {
		if p.New.Kind == desired.KindNode && len(fields(p.Old, p.New)) > 0 {
			n, now := e.node(p.New), specOf[desired.Node](p.New)
			move(now.SKU, n.Stock.Sold, n.open(now.Cordoned))
		}
	}
	for _, o := range e.created {
		if now := specOf[desired.Node](o); o.Kind == desired.KindNode && !now.Cordoned {
			move(now.SKU, 0, now.GPUs)
		}
	}
	return after
}

func (n Node) open(cordoned bool) int {
	if cordoned {
		return 0
	}
	return n.Stock.Open
}

// capacity returns the price of all sellable slots: the allocated and the free ones.
func capacity(stock map[string]Stock, prices map[string]Price) *book {
	b := newBook(nil)
	for _, sku := range slices.Sorted(maps.Keys(stock)) {
		price, slots := prices[sku], stock[sku].Sold
		if price.Active {
			slots += stock[sku].Open
		}
		if price.Currency != "" {
			b.add(price.Currency, b.perHour(price.Minor, max(slots, 0)))
		}
	}
	return b
}

// money returns the financial effect of the change. An amount that overflows returns a finding,
// which rejects the plan: a wrapped sum would display too small an effect.
func (e effect) money() ([]MoneyChange, []desired.Finding) {
	before, after := e.prices()
	capacityBefore, capacityAfter := capacity(e.inputs.Stock, before), capacity(e.stock(), after)
	burnBefore, burnAfter := newBook(e.inputs.Burn), newBook(e.inputs.Burn)
	byTenant := map[ids.Tenant]*book{}
	for _, a := range e.touched {
		price, ok := after[a.SKU]
		if !ok || e.dropped[a.SKU] || !a.Charged || a.Leaving || price.Currency != a.Currency || price.Minor == a.Price {
			continue // the price does not follow, as in allocation.Reprice
		}
		change := burnAfter.perHour(price.Minor, a.GPUs) - burnAfter.perHour(a.Price, a.GPUs)
		burnAfter.add(a.Currency, change)
		if byTenant[a.Tenant] == nil {
			byTenant[a.Tenant] = newBook(nil)
		}
		byTenant[a.Tenant].add(a.Currency, change)
	}
	e.storageBurn(burnAfter)
	var currencies []string
	for _, b := range []*book{capacityBefore, capacityAfter, burnBefore, burnAfter} {
		currencies = slices.AppendSeq(currencies, maps.Keys(b.sums))
	}
	slices.Sort(currencies)
	list, broken := []MoneyChange{}, capacityBefore.broken || capacityAfter.broken || burnAfter.broken
	for _, c := range slices.Compact(currencies) {
		m := MoneyChange{
			Currency: c, CapacityBefore: capacityBefore.sums[c], CapacityAfter: capacityAfter.sums[c],
			BurnBefore: burnBefore.sums[c], BurnAfter: burnAfter.sums[c], Tenants: []TenantMoney{},
		}
		for _, t := range e.inputs.Tenants {
			if sums := byTenant[t.ID]; sums != nil && t.Currency == c {
				own := newBook(map[string]money.Minor{c: t.Burn})
				own.add(c, sums.sums[c])
				broken = broken || own.broken || sums.broken
				m.Tenants = append(m.Tenants, tenantMoney(t, own.sums[c]))
			}
		}
		slices.SortFunc(m.Tenants, func(a, b TenantMoney) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.TenantID, b.TenantID))
		})
		list = append(list, m)
	}
	if broken {
		return list, []desired.Finding{{Message: "the cost exceeds the largest amount", Expected: "a lower price"}}
	}
	return list, nil
}

func tenantMoney(t Tenant, after money.Minor) TenantMoney {
	return TenantMoney{
		TenantID: t.ID.String(), Name: t.Name, BurnBefore: t.Burn, BurnAfter: after, Balance: t.Balance,
		RunwayBefore: runway(t.Balance, t.Burn), RunwayAfter: runway(t.Balance, after),
	}
}

// runway is in minutes; nil while nothing burns.
func runway(balance, burn money.Minor) *int64 {
	seconds, ends := money.Lasts(balance, burn)
	if !ends {
		return nil
	}
	minutes := seconds / 60
	return &minutes
}

// signed prints a difference of two amounts, or nothing where there is none.
func signed(currency string, before, after money.Minor) string {
	switch change := after - before; {
	case change > 0:
		return "+" + money.Format(currency, change)
	case change < 0:
		return "-" + money.Format(currency, -change)
	}
	return ""
}
