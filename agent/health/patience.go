package health

import (
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/protocol/fault"
)

// Patience measures how long a value has exceeded its limit. A short moment above the limit is no fault,
// and a short moment below it does not clear one.
type Patience map[about]*lasted

type about struct{ source, target, check string }

type lasted struct {
	report      protocol.HealthReport
	first, last time.Time
	raised      bool
}

// Weigh returns the reports that count now. A source without any report about a target was not
// read, so its earlier report stays in effect.
func (p Patience) Weigh(said []protocol.HealthReport, now time.Time) (counts []protocol.HealthReport) {
	spoke := map[[2]string]bool{}
	for _, r := range said {
		spoke[[2]string{r.Source, r.Target}] = true
		f, _ := fault.Of(r.Check)
		if f.RaiseAfter == 0 && f.ClearAfter == 0 || f.Clears == fault.ClearsTime {
			continue
		}
		key := about{r.Source, r.Target, r.Check}
		if p[key] == nil {
			p[key] = &lasted{first: now}
		}
		p[key].report, p[key].last = r, now
		if now.Sub(p[key].first) >= f.RaiseAfter {
			p[key].raised = true
		}
	}
	for _, r := range said {
		if l := p[about{r.Source, r.Target, r.Check}]; l == nil || l.raised {
			counts = append(counts, r)
		}
	}
	for key, l := range p {
		f, _ := fault.Of(key.check)
		switch {
		case l.last.Equal(now):
		case spoke[[2]string{key.source, key.target}] && (!l.raised || now.Sub(l.last) >= f.ClearAfter):
			delete(p, key)
		case l.raised:
			counts = append(counts, l.report)
		}
	}
	return p.fill(counts, said)
}

// fill adds a healthy report for each source and target without one that counts.
func (Patience) fill(counts, said []protocol.HealthReport) []protocol.HealthReport {
	ill := map[[2]string]bool{}
	for _, r := range counts {
		ill[[2]string{r.Source, r.Target}] = ill[[2]string{r.Source, r.Target}] || r.Check != ""
	}
	counts = slices.DeleteFunc(counts, func(r protocol.HealthReport) bool { return r.Check == "" && ill[[2]string{r.Source, r.Target}] })
	for _, r := range said {
		key := [2]string{r.Source, r.Target}
		if _, there := ill[key]; !there {
			ill[key] = false
			counts = append(counts, Well(r.Source, r.Target))
		}
	}
	return counts
}
