package protocol_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gpuaas/gpuaas/protocol"
)

// A line is text that a terminal can show, whatever a program has written, and to clean it twice changes nothing.
func TestLinesAreClean(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ж", 1<<19)
	for name, try := range map[string]struct{ line, want string }{
		"plain":                {"GPU 0: all is well — 42 °C", "GPU 0: all is well — 42 °C"},
		"escape sequence":      {"\x1b]0;title\x07\x1b[2J\x9b31m", `\x1b]0;title\x07\x1b[2J` + "\uFFFD31m"},
		"C1 in UTF-8":          {"a\u009b2Jb", `a\x9b2Jb`},
		"another line":         {"a\r\n2026-01-05 kernel: forged", `a\x0d\x0a2026-01-05 kernel: forged`},
		"direction and joiner": {"a\u202eb\u2028c\u200d", `a\u202eb\u2028c\u200d`},
		"binary":               {"\xff\xfe\x00a", "\uFFFD" + `\x00a`},
		"bearer":               {"Authorization: Bearer abcdefghijk.lmn", "Authorization: Bearer [redacted]"},
		"assignments":          {`password=hunter2 api_key="a b" {"token": "x"} AWS_SECRET_ACCESS_KEY: y`, `password=[redacted] api_key=[redacted] {"token": [redacted]} AWS_SECRET_ACCESS_KEY: [redacted]`},
		"own token":            {"used gpt_7sJx0Vb1p5m3Qb1x9vXq2oZK3c0m1v5b8n4rT6yUeWg now", "used [redacted] now"},
		"URL":                  {"postgres://app:s3cret@db/app", "postgres://app:[redacted]@db/app"},
		"private key":          {"-----BEGIN OPENSSH PRIVATE KEY-----\nabc\ndef", "[redacted]"},
		"JWT":                  {"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.abc", "[redacted]"},
		"long":                 {long, ""},
	} {
		got := protocol.CleanLine(try.line)
		if try.want != "" && got != try.want {
			t.Errorf("%s: %q, want %q", name, got, try.want)
		}
		if len(got) > protocol.MaxLogLine || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) || protocol.CleanLine(got) != got {
			t.Errorf("%s: %d bytes, or not clean, or not stable", name, len(got))
		}
	}
	if got := protocol.CleanLine(long); len(got) < protocol.MaxLogLine-4 || !strings.HasSuffix(got, "[line cut]") {
		t.Errorf("a long line has %d bytes and ends with %q", len(got), got[len(got)-20:])
	}
}

func FuzzCleanLine(f *testing.F) {
	f.Add("password=\x1b[2J \xff \u202e")
	f.Add("-----BEGIN PRIVATE KEY-----://a:b@c token=")
	f.Fuzz(func(t *testing.T, line string) {
		got := protocol.CleanLine(line)
		if len(got) > protocol.MaxLogLine || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("%q becomes %q", line, got)
		}
	})
}

func TestLogCursors(t *testing.T) {
	t.Parallel()
	one := protocol.LogPosition{At: 1767603604000000, Number: 3}
	for _, c := range []protocol.LogCursor{{First: one}, {First: one, Second: one}, {Second: one}, {First: one, Second: protocol.LogPosition{At: 1}}} {
		if got, ok := protocol.ParseLogCursor(c.String()); !ok || got != c || len(c.String()) > 64 {
			t.Errorf("%s: %v %v", c, got, ok)
		}
	}
	for _, text := range []string{"", "1", "1.", ".1", "0.1", "1.0", "-1.1", "1.1 ", "1e3.1", "1.1\n", "99999999999999999.1", "1.9999999999", "s=abc;i=1", "1.1-", "1.1-0.0", "1.1-1", "1.1-1.1-1.1", "-1.1", "1.1-1.-1"} {
		if _, ok := protocol.ParseLogCursor(text); ok {
			t.Errorf("%q is accepted", text)
		}
	}
}

// A node is not trusted: its lines are cleaned again, and a line or a stream of any other form ends the reading.
func TestReadLog(t *testing.T) {
	t.Parallel()
	var got []protocol.LogItem
	read := func(text string) error {
		got = nil
		return protocol.ReadLog(strings.NewReader(text), func(i protocol.LogItem) error { got = append(got, i); return nil })
	}
	hostile, err := json.Marshal(protocol.LogItem{At: 1, Number: 1, Text: "\x1b[2J token=abc"})
	if err != nil {
		t.Fatal(err)
	}
	if err := read(string(hostile) + "\n" + `{"end":"complete"}` + "\n" + `{"at_us":2}`); err != nil || len(got) != 2 || got[0].Text != `\x1b[2J token=[redacted]` {
		t.Errorf("%+v %v", got, err)
	}
	if err := read(`{"at_us":1}` + "\n"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("without an end: %v", err)
	}
	for _, text := range []string{"not JSON\n", strings.Repeat("a", 1<<20) + "\n"} {
		if err := read(text); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}
