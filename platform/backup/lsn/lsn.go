// Package lsn calculates with positions in the write-ahead log, and with the names of its files.
package lsn

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// LSN is a position in the write-ahead log.
type LSN uint64

// Parse reads the form of PostgreSQL, such as 16/B374D848.
func Parse(text string) (LSN, error) {
	high, low, ok := strings.Cut(text, "/")
	h, errH := strconv.ParseUint(high, 16, 32)
	l, errL := strconv.ParseUint(low, 16, 32)
	if !ok || errH != nil || errL != nil {
		return 0, errs.Invalid("lsn", "%q is not a position such as 16/B374D848", text)
	}
	return LSN(h<<32 | l), nil
}

func (l LSN) String() string { return fmt.Sprintf("%X/%X", uint64(l)>>32, uint32(l)) } //nolint:gosec // the lower half

// MarshalJSON writes the form of PostgreSQL.
func (l LSN) MarshalJSON() ([]byte, error) { return json.Marshal(l.String()) }

// UnmarshalJSON reads it.
func (l *LSN) UnmarshalJSON(raw []byte) (err error) {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	*l, err = Parse(text)
	return err
}

var (
	segment = regexp.MustCompile(`^[0-9A-F]{24}$`)
	history = regexp.MustCompile(`^[0-9A-F]{8}\.history$`)
	other   = regexp.MustCompile(`^[0-9A-F]{24}\.([0-9A-F]{8}\.backup|partial)$`)
)

// IsSegment reports whether a file of WAL is a whole segment.
func IsSegment(name string) bool { return segment.MatchString(name) }

// IsHistory reports whether a file is the history of a timeline.
func IsHistory(name string) bool { return history.MatchString(name) }

// IsFile reports whether PostgreSQL archives files of this name.
func IsFile(name string) bool { return IsSegment(name) || IsHistory(name) || other.MatchString(name) }

// Number returns the number of a segment on its timeline.
func (l LSN) Number(segmentBytes uint64) uint64 { return uint64(l) / segmentBytes }

// Name returns the file of a segment.
func Name(timeline uint32, number, segmentBytes uint64) string {
	perHigh := uint64(1<<32) / segmentBytes
	return fmt.Sprintf("%08X%08X%08X", timeline, number/perHigh, number%perHigh)
}

// Split returns the timeline and the number of a segment.
func Split(name string, segmentBytes uint64) (timeline uint32, number uint64) {
	part := func(i int) uint64 { n, _ := strconv.ParseUint(name[8*i:8*i+8], 16, 32); return n }
	return uint32(part(0)), part(1)*(uint64(1<<32)/segmentBytes) + part(2) //nolint:gosec // of 8 digits
}

// Names returns the segments from the one of from up to the one that ends at or behind to.
func Names(timeline uint32, from, to LSN, segmentBytes uint64) (names []string) {
	for n := from.Number(segmentBytes); n <= (to - 1).Number(segmentBytes); n++ {
		names = append(names, Name(timeline, n, segmentBytes))
	}
	return names
}
