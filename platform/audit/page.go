package audit

import (
	"cmp"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// page is some seals, to be compared with the rows of their transactions.
type page struct {
	seals   []*compared // sorted by transaction
	by      map[place]*compared
	upTo    []uint64 // the ends of its stretches
	stretch int      // that the last row was in
	dropped dropped
	excused int64 // rows that are only in the archive
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

// compare processes the rows, sorted by transaction.
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
		all := len(c.left)
		maps.DeleteFunc(c.left, func(id uuid.UUID, _ digest) bool { return p.dropped.contain(id) })
		p.excused += int64(all - len(c.left))
		if len(c.left) > 0 {
			c.blame(RowMissing, c.first(c.left))
		}
	}
	slices.SortStableFunc(p.seals, func(a, b *compared) int { return cmp.Compare(a.upTo, b.upTo) })
	return p.seals
}

// dropped are the first moments of the months whose rows are only in the archive.
type dropped []time.Time

// lateIDs is longer than any transaction: the id of a row is of its insertion, and its month of the start of its
// transaction. Verify compares the number of these rows with that of the export.
const lateIDs = time.Hour

// contain reports whether a row of this id may be of one of the months.
func (d dropped) contain(id uuid.UUID) bool {
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16))
	return slices.ContainsFunc(d, func(month time.Time) bool {
		return !at.Before(month) && at.Before(month.AddDate(0, 1, 0).Add(lateIDs))
	})
}
