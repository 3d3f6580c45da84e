package protocol

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// LogSource is a source of log lines. The node has a compiled list of what each of them reads.
type LogSource string

// The sources of logs.
const (
	LogLogin         LogSource = "login" // logins to the allocation
	LogKernel        LogSource = "kernel"
	LogAgent         LogSource = "agent"
	LogHelper        LogSource = "helper"
	LogSSHD          LogSource = "sshd"
	LogFabricManager LogSource = "fabricmanager"
	LogPersistenced  LogSource = "persistenced"
	LogSystem        LogSource = "system"
)

// The sources of an allocation and of a node. Those of an allocation contain nothing about other tenants.
var (
	AllocationLogs = []LogSource{LogLogin, LogKernel, LogAgent}
	NodeLogs       = []LogSource{LogAgent, LogHelper, LogKernel, LogSSHD, LogFabricManager, LogPersistenced, LogSystem}
)

// The limits of log streams.
const (
	MaxLogTail = 10000    // lines before the first new one
	MaxLogLine = 16 << 10 // bytes of a line, with the mark of a longer one
)

// LogQuery selects the lines of a stream of kind logs. It contains numbers and a known source, and no text of a caller.
type LogQuery struct {
	Source LogSource `json:"source"`
	Tail   int       `json:"tail"`
	// Since is the least time of a line, in microseconds since 1970. Zero means the beginning.
	Since int64 `json:"since_us,omitempty"`
	// Skip is the number of lines from the first one of that time on which the reader has.
	Skip int `json:"skip,omitempty"`
	// Second is the position in the second source of the log. Zero means that Since applies to both.
	Second LogPosition `json:"second,omitzero"`
	Follow bool        `json:"follow,omitempty"`
}

// check checks a query for an allocation, or for the node.
func (q *LogQuery) check(ofAllocation bool) error {
	sources := NodeLogs
	if ofAllocation {
		sources = AllocationLogs
	}
	switch {
	case q == nil || !slices.Contains(sources, q.Source):
		return Reject(ParamsInvalid, "a stream of logs needs one of the sources %v", sources)
	case q.Tail < 0 || q.Tail > MaxLogTail || q.Since < 0 || q.Skip < 0 || q.Skip > 0 && q.Since == 0, q.Second.At < 0 || q.Second.Number < 0:
		return Reject(ParamsInvalid, "the numbers of the log query are out of range")
	}
	return nil
}

// LogItem is a line of a log, a number of lines that were dropped because the reader is too slow, or the end of the stream.
type LogItem struct {
	At      int64       `json:"at_us,omitempty"`
	Number  int         `json:"n,omitempty"`      // among the lines of that time, from 1
	Second  bool        `json:"second,omitempty"` // the line is of the second source
	Other   LogPosition `json:"other,omitzero"`   // in the other source, if there are two
	Text    string      `json:"text,omitempty"`
	Dropped int         `json:"dropped,omitempty"`
	End     string      `json:"end,omitempty"`
}

// Time returns the time of a line.
func (i LogItem) Time() time.Time { return time.UnixMicro(i.At).UTC() }

// Cursor returns the position after a line.
func (i LogItem) Cursor() LogCursor {
	own := LogPosition{At: i.At, Number: i.Number}
	if i.Second {
		return LogCursor{First: i.Other, Second: own}
	}
	return LogCursor{First: own, Second: i.Other}
}

// LogPosition is a position after a line of one source. The time of a late line is that of the latest line before it, so that
// positions rise in the sequence of the source.
type LogPosition struct {
	At     int64 `json:"at_us"`
	Number int   `json:"n"` // among the lines of that time, from 1
}

// LogCursor is a position after a line of a log, which has one or two sources.
type LogCursor struct{ First, Second LogPosition }

func (c LogCursor) String() string {
	if c.Second == (LogPosition{}) {
		return fmt.Sprintf("%d.%d", c.First.At, c.First.Number)
	}
	return fmt.Sprintf("%d.%d-%d.%d", c.First.At, c.First.Number, c.Second.At, c.Second.Number)
}

// logCursor matches one position after a line, or two positions, one of which can be before the first line of its source.
var logCursor = regexp.MustCompile(`^([1-9][0-9]{0,15})\.([1-9][0-9]{0,8})$|^(0|[1-9][0-9]{0,15})\.(0|[1-9][0-9]{0,8})-([1-9][0-9]{0,15})\.(0|[1-9][0-9]{0,8})$`)

// ParseLogCursor reads what String returns. ok is false for any other text.
func ParseLogCursor(text string) (c LogCursor, ok bool) {
	match := logCursor.FindStringSubmatch(text)
	if match == nil {
		return c, false
	}
	if match[1] != "" {
		return LogCursor{First: positionOf(match[1], match[2])}, true
	}
	return LogCursor{positionOf(match[3], match[4]), positionOf(match[5], match[6])}, true
}

// positionOf reads at most 16 and 9 digits, which fit.
func positionOf(at, number string) (p LogPosition) {
	p.At, _ = strconv.ParseInt(at, 10, 64)
	p.Number, _ = strconv.Atoi(number)
	return p
}

// redacted replaces a secret in a line.
const redacted = "[redacted]"

// secrets are patterns of secrets in text. The first group of a pattern stays.
var secrets = []*regexp.Regexp{
	regexp.MustCompile(`()-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`),
	regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}`),
	regexp.MustCompile(`(?i)([A-Za-z0-9_.-]*(?:password|passwd|passphrase|secret|token|api_?-?key|access_?-?key|cookie)[A-Za-z0-9_.-]*["']?\s*[=:]\s*)(?:\[redacted\]|"[^"]*(?:"|$)|'[^']*(?:'|$)|[^\s"',;&]+)`),
	regexp.MustCompile(`(://[^/\s:@]*:)[^/\s@]+@`),
	regexp.MustCompile(`()\b(?:gp[a-z]{1,3}_|gh[pousr]_|hf_|sk-)[A-Za-z0-9_-]{16,}`),
	regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`),
	regexp.MustCompile(`()\bAKIA[0-9A-Z]{16}\b`),
}

// cutMark ends a line that was longer.
const cutMark = " … [line cut]"

// CleanLine returns a line that a terminal can show: secrets are replaced, control characters are escaped, bytes that are no
// UTF-8 are replaced, and a long line is cut. A clean line stays as it is.
func CleanLine(line string) string {
	line = strings.ToValidUTF8(line[:min(len(line), 4*MaxLogLine)], "\uFFFD")
	for i, pattern := range secrets {
		with := "${1}" + redacted
		if i == urlPassword {
			with += "@"
		}
		line = pattern.ReplaceAllString(line, with)
	}
	var clean strings.Builder
	for _, r := range line {
		escape(&clean, r)
		if clean.Len() > MaxLogLine {
			return cut(clean.String())
		}
	}
	return clean.String()
}

// urlPassword is the index of the pattern whose match ends before an address.
const urlPassword = 3

func cut(line string) string {
	line = line[:MaxLogLine-len(cutMark)]
	for !utf8.ValidString(line) { // at most three times, because the rest is valid
		line = line[:len(line)-1]
	}
	return line + cutMark
}

// escape writes a rune. Marks of the direction of text are escaped too, because they show a line as another one.
func escape(to *strings.Builder, r rune) {
	switch {
	case unicode.IsControl(r):
		fmt.Fprintf(to, `\x%02x`, r)
	case unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp):
		fmt.Fprintf(to, `\u%04x`, r)
	default:
		to.WriteRune(r)
	}
}
