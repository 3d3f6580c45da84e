package lsn

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Fork is the end of a timeline in the history of a later one.
type Fork struct {
	Timeline uint32
	At       LSN
}

// HistoryName returns the file of the history of a timeline.
func HistoryName(timeline uint32) string { return fmt.Sprintf("%08X.history", timeline) }

// ParseHistory reads the history of a timeline: a line for each timeline before it, with its end.
func ParseHistory(text []byte) (forks []Fork, err error) {
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 2 {
			return nil, errs.Invalid("history", "has the line %q", strings.TrimSpace(line))
		}
		timeline, err := strconv.ParseUint(fields[0], 10, 32)
		if err != nil || len(forks) > 0 && uint32(timeline) <= forks[len(forks)-1].Timeline {
			return nil, errs.Invalid("history", "has the timeline %q at a wrong place", fields[0])
		}
		at, err := Parse(fields[1])
		if err != nil {
			return nil, err
		}
		forks = append(forks, Fork{uint32(timeline), at})
	}
	return forks, nil
}
