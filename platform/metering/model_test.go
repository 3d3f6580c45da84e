package metering

import (
	"math/big"
	"time"
)

// model computes the expected result of a history from the documented rules: in integers of any size,
// second by second, without any code of the package under test.
type model struct {
	now     int64 // by the database's clock, which may jump
	cuts    []int64
	first   int64 // where the first tick begins
	charged int   // how many ticks are
	spans   []*span
}

// span is one interval of an allocation.
type span struct {
	use        *use
	price      int64
	start, end int64 // end is 0 while it is open
	opened     Cause
	closed     Cause
	credit     [2]int64 // from, to
}

// moment returns the effective time of an operation: never before the last cut.
func (m *model) moment() int64 { return max(m.now, m.lastCut()) }

func (m *model) lastCut() int64 {
	if len(m.cuts) == 0 {
		return -1 << 62
	}
	return m.cuts[len(m.cuts)-1]
}

func (m *model) open(u *use, price int64, by Cause) {
	if u.open != nil {
		return
	}
	s := &span{use: u, price: price, start: max(m.moment(), u.last), opened: by}
	u.open = s
	m.spans = append(m.spans, s)
}

func (m *model) close(u *use, by Cause) *span {
	s := u.open
	if s == nil {
		return nil
	}
	s.end, s.closed = max(m.moment(), s.start), by
	u.open, u.last = nil, s.end
	return s
}

// cut ends a tick at every midnight that has passed, and now.
func (m *model) cut() {
	from := m.lastCut()
	if len(m.cuts) == 0 {
		if len(m.spans) == 0 {
			return
		}
		from = m.spans[0].start
		for _, s := range m.spans {
			from = min(from, s.start)
		}
	}
	if m.now <= from {
		return
	}
	if len(m.cuts) == 0 {
		m.first = from
	}
	for t := time.Unix(from, 0).UTC().Truncate(24 * time.Hour).Add(24 * time.Hour); t.Unix() < m.now; t = t.AddDate(0, 0, 1) {
		m.cuts = append(m.cuts, t.Unix())
	}
	m.cuts = append(m.cuts, m.now)
}

// chargedUntil is the end of the last tick that is charged.
func (m *model) chargedUntil() int64 {
	if m.charged == 0 {
		return -1 << 62
	}
	return m.cuts[m.charged-1]
}

// owes returns the exact amount for the span in [from, to).
func (s *span) owes(from, to int64) int64 {
	end := to
	if s.closed != "" {
		end = min(end, s.end)
	}
	return s.due(end) - s.due(from)
}

// due returns the amount due at a second: nothing before the start, nothing more after the end, and
// whole minor units of price × GPUs × seconds ÷ 3600 between.
func (s *span) due(at int64) int64 {
	if s.closed != "" {
		at = min(at, s.end)
	}
	if at <= s.start {
		return 0
	}
	n := new(big.Int).SetInt64(at - s.start)
	n.Mul(n, big.NewInt(s.price)).Mul(n, big.NewInt(int64(s.use.GPUs)))
	return n.Quo(n, big.NewInt(3600)).Int64()
}

func (s *span) given() int64 {
	if s.credit[1] <= s.credit[0] {
		return 0
	}
	return s.due(s.credit[1]) - s.due(s.credit[0])
}

// byPeriod returns the amount that each allocation owes in each period of layout, up to a second. It
// adds up hours, because every period consists of whole hours.
func (m *model) byPeriod(until int64, layout string) map[string]int64 {
	sums := map[string]int64{}
	for _, s := range m.spans {
		last := until
		if s.closed != "" {
			last = min(last, s.end)
		}
		for t := s.start; t < last; {
			hour := time.Unix(t, 0).UTC().Truncate(time.Hour).Add(time.Hour)
			next := min(hour.Unix(), last)
			if owed := s.owes(t, next); owed != 0 {
				sums[s.use.Allocation.String()+" "+time.Unix(t, 0).UTC().Format(layout)] += owed
			}
			t = next
		}
	}
	return sums
}
