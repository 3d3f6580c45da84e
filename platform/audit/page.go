package audit

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// page is some seals, to be compared with the rows of their transactions.
type page struct {
	seals   []*compared // in the order of transactions
	by      map[place]*compared
	upTo    []uint64 // the ends of its stretches
	stretch int      // that the last row was in
}

type place struct {
	upTo   uint64
	tenant ids.Tenant
}

// compared is a seal with the rows that it should cover. A loose one represents a missing seal.
type compared struct {
	*seal

	loose bool
	left  map[uuid.UUID]digest // without a row so far
	fault *Fault
}

// newPage assigns the rows up to the end of the sealed range to the last seals. Rows between two seals
// belong to none.
func newPage(seals []*seal, sealed uint64) *page {
	p := &page{by: map[place]*compared{}}
	for _, s := range seals {
		p.add(&compared{seal: s, left: s.entries()})
	}
	if len(seals) == 0 {
		p.upTo = []uint64{sealed}
	}
	return p
}

func (p *page) add(c *compared) *compared {
	p.seals = append(p.seals, c)
	p.by[place{c.upTo, c.tenant}] = c
	if n := len(p.upTo); !c.loose && (n == 0 || p.upTo[n-1] < c.upTo) {
		p.upTo = append(p.upTo, c.upTo)
	}
	return c
}

func (p *page) last() uint64 { return p.upTo[len(p.upTo)-1] }

// compare processes the rows in the order of their transactions.
func (p *page) compare(r *row) {
	for r.xid > p.upTo[p.stretch] {
		p.stretch++
	}
	at := place{p.upTo[p.stretch], r.tenant}
	c := p.by[at]
	if c == nil {
		c = p.add(&compared{seal: &seal{upTo: at.upTo, tenant: at.tenant}, loose: true})
	}
	known, ok := c.left[r.id]
	delete(c.left, r.id)
	switch {
	case !ok:
		c.blame(RowInserted, r.id)
	case known != r.sum(c.form), c.form < withClient && r.client != (Client{}): // such a seal does not cover the client
		c.blame(RowChanged, r.id)
	}
}

// blame stores the first fault only.
func (c *compared) blame(w Wrong, id uuid.UUID) {
	if c.fault == nil {
		c.fault = &Fault{Wrong: w, Row: id, UpTo: c.upTo, SealedAt: c.at}
	}
}

// inOrder are the seals, loose ones in their places, each with what is wrong.
func (p *page) inOrder() []*compared {
	for _, c := range p.seals {
		if len(c.left) > 0 {
			c.blame(RowMissing, c.first(c.left))
		}
	}
	slices.SortStableFunc(p.seals, func(a, b *compared) int { return cmp.Compare(a.upTo, b.upTo) })
	return p.seals
}
