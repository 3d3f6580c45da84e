package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// text contains lines of asciicast v2.
type text struct {
	lines []byte
	rest  []byte // the beginning of a character whose end is not printed yet
}

func (t *text) header(columns, rows int, begun time.Time) {
	t.lines = fmt.Appendf(t.lines, `{"version": 2, "width": %d, "height": %d, "timestamp": %d, "env": {"TERM": "xterm-256color"}}`+"\n", columns, rows, begun.Unix())
}

func (t *text) output(at time.Duration, p []byte) {
	p = append(t.rest, p...)
	whole := wholeLength(p)
	t.rest = bytes.Clone(p[whole:])
	if whole > 0 {
		t.event(at, "o", string(p[:whole]))
	}
}

func (t *text) resize(at time.Duration, columns, rows int) {
	t.event(at, "r", strconv.Itoa(columns)+"x"+strconv.Itoa(rows))
}

func (t *text) event(at time.Duration, kind, data string) {
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(false)
	_ = e.Encode(data) // a text; what is no UTF-8 becomes U+FFFD, as on a screen
	t.lines = fmt.Appendf(t.lines, "[%.6f, %q, %s]\n", at.Seconds(), kind, bytes.TrimRight(quoted.Bytes(), "\n"))
}

// flush returns the lines and removes them. The last lines contain a torn character.
func (t *text) flush(last bool, at time.Duration) []byte {
	if last && len(t.rest) > 0 {
		t.event(at, "o", string(t.rest))
		t.rest = nil
	}
	lines := t.lines
	t.lines = nil
	return lines
}

// wholeLength returns the length of p without a character at its end that is not complete.
func wholeLength(p []byte) int {
	for i := len(p) - 1; i >= max(0, len(p)-utf8.UTFMax); i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return i
			}
			break
		}
	}
	return len(p)
}
