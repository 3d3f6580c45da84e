package linux

import (
	"fmt"
	"strings"
)

// mounted is one line of what is mounted.
type mounted struct {
	point, options, kind, source string
}

// mounts lists what the host has mounted. A later line covers an earlier one at the
// same point.
func (h *Host) mounts() (map[string]mounted, error) {
	found := map[string]mounted{}
	err := h.lines("/proc/self/mountinfo", func(line string) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		const leftFields, rightFields = 6, 3
		if !ok || len(left) < leftFields || len(right) < rightFields {
			return
		}
		m := mounted{point: unescape.Replace(left[4]), options: left[5], kind: right[0], source: unescape.Replace(right[1])}
		found[m.point] = m
	})
	if err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	return found, nil
}

// harmless says whether nothing on it can give rights that its owner has not.
func (m mounted) harmless() bool { return m.has("nosuid") && m.has("nodev") }

func (m mounted) has(option string) bool {
	for o := range strings.SplitSeq(m.options, ",") {
		if o == option {
			return true
		}
	}
	return false
}
