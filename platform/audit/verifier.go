package audit

import (
	"bytes"
	"encoding/hex"
	"slices"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// verifier follows the chain of each tenant from page to page.
type verifier struct{ chains map[ids.Tenant]*progress }

type progress struct {
	Chain

	last     digest
	expected map[int64]string // heads that were stored elsewhere, by their number of rows
}

func (v *verifier) progressOf(t ids.Tenant) *progress {
	if v.chains[t] == nil {
		v.chains[t] = &progress{Chain: Chain{Tenant: t}, expected: map[int64]string{}}
	}
	return v.chains[t]
}

func (c *progress) expect(h Chain) {
	if h.Rows > 0 {
		c.expected[h.Rows] = h.Head
	}
}

func (c *progress) blame(f *Fault) {
	if c.Fault == nil {
		c.Fault = f
	}
}

// addPage compares the seals of a page with the progress of their tenants. It continues from the
// stored hash, so a broken seal is reported once and not again for every later seal.
func (v *verifier) addPage(p *page) {
	for _, s := range p.inOrder() {
		c := v.progressOf(s.tenant)
		if s.loose {
			c.blame(s.fault)
			continue
		}
		if s.chainAfter(c.last) != s.chain {
			// What it lists is worth nothing then.
			s.fault = &Fault{Wrong: SealBroken, UpTo: s.upTo, SealedAt: s.at}
		}
		if s.fault != nil {
			c.blame(s.fault)
		}
		c.last, c.Rows, c.Head = s.chain, s.total, hex.EncodeToString(s.chain[:])
		c.Seals++
		if c.expected[c.Rows] == c.Head {
			delete(c.expected, c.Rows)
		}
	}
}

func (v *verifier) report() []Chain {
	all := make([]Chain, 0, len(v.chains))
	for _, c := range v.chains {
		if len(c.expected) > 0 {
			c.blame(&Fault{Wrong: HeadLost})
		}
		all = append(all, c.Chain)
	}
	slices.SortFunc(all, func(a, b Chain) int { return bytes.Compare(a.Tenant.UUID[:], b.Tenant.UUID[:]) })
	return all
}
