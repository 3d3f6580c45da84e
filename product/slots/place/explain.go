package place

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Candidate is one node that offers the SKU, suitable or not.
type Candidate struct {
	Name      string // empty if the caller may not see it
	Region    string
	Enrolled  bool
	Reachable bool // its reports are fresh
	Cordoned  bool
	Slots     []Unit
}

// Unit is one slot as a request that waits sees it.
type Unit struct {
	Status string    // clean | claimed | dirty | quarantined
	Holder string    // name of the allocation, if the caller may see it
	Ends   time.Time // of its lease; zero: none is known
}

// Left is the number of nodes that one rule excludes. Each node is counted once, under the first rule
// that excludes it.
type Left struct {
	Filter string
	Nodes  int
}

// The rules, from the first to the last.
const (
	OtherRegion = "other_region"
	NotEnrolled = "not_enrolled"
	TooSmall    = "too_small" // fewer slots in total than requested
	Silent      = "silent"
	Cordoned    = "cordoned"
	Quarantined = "quarantined" // would fit, if its quarantined slots were cleared
	Scrubbing   = "scrubbing"   // would fit, were its dirty slots proved clean
	Occupied    = "occupied"
)

// Fit is one change that would let a request be placed.
type Fit struct {
	Text string
	At   time.Time // when it happens by itself; zero: it needs an operator or a user
}

// mostFits is as many ways out as a person weighs.
const mostFits = 5

// Explain returns the rules that prevent a placement of n slots in a region (empty: any) on these nodes,
// and the changes that would allow it: first those that happen by themselves, sorted by time.
func Explain(nodes []Candidate, region string, n int, now time.Time) (left []Left, fits []Fit) {
	counts := map[string]int{}
	for _, c := range nodes {
		filter, fit := c.obstacle(region, n, now)
		if filter == "" {
			continue // it fits and will be placed soon
		}
		counts[filter]++
		if fit.Text != "" && !slices.Contains(fits, fit) {
			fits = append(fits, fit)
		}
	}
	for _, f := range []string{OtherRegion, NotEnrolled, TooSmall, Silent, Cordoned, Quarantined, Scrubbing, Occupied} {
		if counts[f] > 0 {
			left = append(left, Left{f, counts[f]})
		}
	}
	if len(nodes) == 0 {
		fits = []Fit{{Text: "fits if a node with this SKU is added"}}
	} else if counts[TooSmall] == len(nodes) {
		fits = []Fit{{Text: fmt.Sprintf("no node has as many GPUs; request at most %d", largest(nodes))}}
	}
	slices.SortStableFunc(fits, func(a, b Fit) int {
		if a.At.IsZero() != b.At.IsZero() {
			return cmp.Compare(boolInt(a.At.IsZero()), boolInt(b.At.IsZero()))
		}
		return a.At.Compare(b.At)
	})
	return left, fits[:min(len(fits), mostFits)]
}

// obstacle returns the first rule that excludes a node, and the change that would lift it if there is no
// other obstacle.
func (c Candidate) obstacle(region string, n int, now time.Time) (string, Fit) {
	have := map[string]int{}
	for _, u := range c.Slots {
		have[u.Status]++
	}
	free := have["clean"]
	only := func(filter, text string) (string, Fit) {
		if free < n {
			text = "" // lifting it alone would not do
		}
		return filter, Fit{Text: text}
	}
	switch {
	case region != "" && c.Region != region:
		if c.sells() {
			return only(OtherRegion, "fits now in region "+c.Region)
		}
		return OtherRegion, Fit{}
	case !c.Enrolled:
		return NotEnrolled, Fit{Text: "may fit once " + c.who() + " has enrolled"}
	case len(c.Slots) < n:
		return TooSmall, Fit{}
	case !c.Reachable:
		return only(Silent, "fits once "+c.who()+" reports again")
	case c.Cordoned:
		return only(Cordoned, "fits if "+c.who()+" is uncordoned")
	case free >= n:
		return "", Fit{}
	case free+have["dirty"] >= n:
		return Scrubbing, Fit{Text: fmt.Sprintf("fits once %s %s proved clean", slotsOf(n-free, c.who()), are(n-free))}
	case free+have["dirty"]+have["claimed"] < n:
		return Quarantined, Fit{Text: fmt.Sprintf("fits if quarantined slots of %s are cleared", c.who())}
	}
	return Occupied, c.vacancy(n-free-have["dirty"], now)
}

// vacancy returns the time at which enough allocations have expired, or else the allocations whose
// release would free enough slots.
func (c Candidate) vacancy(need int, now time.Time) Fit {
	var ending []Unit
	for _, u := range c.Slots {
		if u.Status == "claimed" && !u.Ends.IsZero() {
			ending = append(ending, u)
		}
	}
	if len(ending) < need {
		return Fit{Text: fmt.Sprintf("fits if %s %s released", slotsOf(need, c.who()), are(need))}
	}
	slices.SortStableFunc(ending, func(a, b Unit) int { return a.Ends.Compare(b.Ends) })
	last := ending[need-1]
	lease := "the lease on " + c.who()
	if last.Holder != "" {
		lease = "lease " + last.Holder
	}
	return Fit{Text: fmt.Sprintf("fits after %s when %s ends", clock(last.Ends, now), lease), At: last.Ends}
}

func (c Candidate) sells() bool { return c.Enrolled && c.Reachable && !c.Cordoned }

func (c Candidate) who() string {
	if c.Name == "" {
		return "a node"
	}
	return "node " + c.Name
}

func slotsOf(n int, who string) string {
	if n == 1 {
		return "a slot of " + who
	}
	return fmt.Sprintf("%d slots of %s", n, who)
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// clock leaves out the day where it is today's.
func clock(at, now time.Time) string {
	at, now = at.UTC(), now.UTC()
	if at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format("15:04")
	}
	return at.Format("2006-01-02 15:04")
}

func largest(nodes []Candidate) (most int) {
	for _, c := range nodes {
		most = max(most, len(c.Slots))
	}
	return most
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
