package host

import (
	"fmt"
	"strings"
)

// mount is one line of what is mounted.
type mount struct {
	point, options, kind, source string
}

// mounts lists what the host has mounted. A later line covers an earlier one at the
// same point.
func (h *Host) mounts() (map[string]mount, error) {
	found := map[string]mount{}
	err := h.lines("/proc/self/mountinfo", func(line string) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		const leftFields, rightFields = 6, 3
		if !ok || len(left) < leftFields || len(right) < rightFields {
			return
		}
		m := mount{point: unescape(left[4]), options: left[5], kind: right[0], source: unescape(right[1])}
		found[m.point] = m
	})
	if err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	return found, nil
}

// unescape turns the kernel's \040 back into a space. None of our paths has one.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// harmless says whether nothing on it can give rights that its owner has not.
func (m mount) harmless() bool { return m.has("nosuid") && m.has("nodev") }

func (m mount) has(option string) bool {
	for o := range strings.SplitSeq(m.options, ",") {
		if o == option {
			return true
		}
	}
	return false
}
