package hostos

import (
	"fmt"
	"slices"
	"strings"
)

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// Mounted is one line of the mount table.
type Mounted struct {
	Point, Options, Kind, Source string
	Super                        string // options of the file system
}

// Mounts lists the mounts of the host OS. A later line covers an earlier one at the
// same point.
func (o *OS) Mounts() (map[string]Mounted, error) {
	found := map[string]Mounted{}
	err := o.Lines("/proc/self/mountinfo", func(line string) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		const leftFields, rightFields = 6, 3
		if !ok || len(left) < leftFields || len(right) < rightFields {
			return
		}
		m := Mounted{Point: unescape.Replace(left[4]), Options: left[5], Kind: right[0], Source: unescape.Replace(right[1]), Super: right[2]}
		found[m.Point] = m
	})
	if err != nil {
		return nil, fmt.Errorf("reading mounts: %w", err)
	}
	return found, nil
}

// FUSEOf reports whether a program of the uid provides the file system. A read below it waits for that program, and
// for ever if the program has stopped.
func (m Mounted) FUSEOf(uid int) bool {
	if m.Kind != "fuse" && !strings.HasPrefix(m.Kind, "fuse.") && m.Kind != "fuseblk" {
		return false
	}
	return slices.Contains(strings.Split(m.Super, ","), fmt.Sprintf("user_id=%d", uid))
}

// Harmless reports whether no file on the mount can give rights that its owner lacks.
func (m Mounted) Harmless() bool { return m.hasOption("nosuid") && m.hasOption("nodev") }

func (m Mounted) hasOption(option string) bool {
	for o := range strings.SplitSeq(m.Options, ",") {
		if o == option {
			return true
		}
	}
	return false
}
