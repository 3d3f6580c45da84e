package bundle

import (
	"cmp"
	"fmt"
	"slices"
)

// Gap is a range of bundles between two files of a chain that were not given.
type Gap struct{ From, To int64 }

// Chain verifies that bundles follow one another. They may have any sequence. With a head, the last one has this digest, and
// no bundle between the first and the last is missing; without one, gaps are returned and are no fault.
func Chain(all []Bundle, head string) (gaps []Gap, fault *Fault) {
	all = slices.SortedFunc(slices.Values(all), func(a, b Bundle) int { return cmp.Compare(a.Predicate.Number, b.Predicate.Number) })
	for i := 1; i < len(all); i++ {
		before, after := all[i-1], all[i]
		where := fmt.Sprintf("bundle %d", after.Predicate.Number)
		switch p := after.Predicate; {
		case p.Environment != before.Predicate.Environment:
			return nil, faultf(where, "is of the environment %q, and bundle %d is of %q", p.Environment, before.Predicate.Number, before.Predicate.Environment)
		case p.Number == before.Predicate.Number && before.SHA256 == after.SHA256:
			return nil, faultf(where, "was given twice")
		case p.Number == before.Predicate.Number:
			return nil, faultf(where, "exists twice, with the digests %s and %s: the chain was forked", before.SHA256, after.SHA256)
		case p.Number > before.Predicate.Number+1:
			gaps = append(gaps, Gap{before.Predicate.Number + 1, p.Number - 1})
		case p.Previous != before.SHA256:
			return nil, faultf(where, "follows %s, and bundle %d is %s: the chain is broken", p.Previous, before.Predicate.Number, before.SHA256)
		}
	}
	if head == "" || len(all) == 0 {
		return gaps, nil
	}
	last := all[len(all)-1]
	switch {
	case last.SHA256 != head:
		return nil, faultf(fmt.Sprintf("bundle %d", last.Predicate.Number), "is %s, and the head is %s", last.SHA256, head)
	case len(gaps) > 0:
		return nil, faultf(fmt.Sprintf("bundle %d", gaps[0].From), "is missing: without it nothing leads to the head")
	}
	return nil, nil
}
