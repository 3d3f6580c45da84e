package mount

import (
	"bytes"
	"context"
	"strings"
	"time"
	"unicode"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
)

// active returns the states of the units of a tenant, by their number.
func (m *Mounts) active(ctx context.Context, uid, mounts int) []string {
	states := make([]string, mounts)
	args := []string{"show", "--property=Id,ActiveState"}
	for n := range mounts {
		args = append(args, unitName(uid, n))
	}
	out, err := m.Command(ctx, hostos.Systemctl, args...)
	for block := range bytes.SplitSeq(out, []byte("\n\n")) {
		var id, state string
		for line := range strings.Lines(string(block)) {
			if key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key == "Id" {
				id = value
			} else if key == "ActiveState" {
				state = value
			}
		}
		for n := range mounts {
			if id == unitName(uid, n) {
				states[n] = state
			}
		}
	}
	for n := range states {
		if states[n] == "" && err != nil {
			states[n] = "unknown: " + err.Error()
		}
	}
	return states
}

// reasonsWithin limits the time for all reasons of one inspection: a report waits for them.
const reasonsWithin = 3 * time.Second

// reasonWithin limits one of them, so that one tenant does not use the time of all.
const reasonWithin = time.Second

// reason returns why a mount does not exist: the last lines that rclone has printed.
func (m *Mounts) reason(ctx context.Context, uid, n int, state string) string {
	ctx, cancel := context.WithTimeout(ctx, reasonWithin)
	defer cancel()
	out, err := m.Command(ctx, hostos.Journalctl, "--quiet", "--no-pager", "--output=cat", "--lines=2", "_SYSTEMD_UNIT="+unitName(uid, n))
	switch lines := lastLines(string(out)); {
	case err != nil:
		return "rclone is " + state + ", and the journal of the node did not respond"
	case lines == "":
		return "rclone is " + state + " and has printed nothing"
	default:
		return "rclone is " + state + ": " + lines
	}
}

// lastLines joins the lines of a program, without characters that a report cannot show. Names of a tenant's files are in
// them.
func lastLines(out string) string {
	const longest = 300
	text := strings.Join(strings.FieldsFunc(out, func(r rune) bool { return r == '\n' || r == '\r' }), ". ")
	text = strings.Map(func(r rune) rune {
		if r == ';' || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.TrimSpace(text))
	if len(text) > longest {
		text = strings.ToValidUTF8(text[len(text)-longest:], "")
	}
	return text
}
