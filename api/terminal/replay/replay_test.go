package replay

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

const columns, rows = 40, 12

type cell struct {
	r     rune
	style string
}

// screen is a small terminal: text, cursor movements, erasure, attributes, the alternate screen, and responses to queries.
type screen struct {
	cells, other [rows][columns]cell
	x, y         int
	style        string
	alternate    bool
	parse        parser
	raw          []byte
	responses    int
}

func (s *screen) write(p []byte) {
	for _, c := range p {
		if s.parse.before(c) {
			if s.parse.state == text {
				s.show(s.raw)
			}
			s.raw = s.raw[:0]
		}
		s.raw = append(s.raw, c)
		if s.parse.step(c) {
			s.show(s.raw)
			s.raw = s.raw[:0]
		}
	}
}

func (s *screen) show(unit []byte) {
	params, final, isCSI := csi(unit)
	switch {
	case isCSI:
		s.control(params, final)
	case unit[0] == '\r':
		s.x = 0
	case unit[0] == '\n':
		s.y = min(s.y+1, rows-1)
	case unit[0] == 0x05 || string(unit) == "\x1bZ":
		s.responses++
	case bytes.HasPrefix(unit, []byte("\x1b]")):
		if bytes.Contains(unit, []byte(";?")) {
			s.responses++
		}
	case unit[0] >= ' ':
		r, _ := utf8.DecodeRune(unit)
		s.cells[s.y][s.x] = cell{r, s.style}
		s.x = min(s.x+1, columns-1)
	}
}

func (s *screen) control(params []byte, final byte) {
	n := append(numbers(params), 0, 0)
	switch final {
	case 'H':
		s.y, s.x = min(max(n[0], 1), rows)-1, min(max(n[1], 1), columns)-1
	case 'J':
		s.cells = [rows][columns]cell{}
	case 'K':
		for x := s.x; x < columns; x++ {
			s.cells[s.y][x] = cell{}
		}
	case 'm':
		if s.style += string(params) + "m"; n[0] == 0 {
			s.style = ""
		}
	case 'h', 'l':
		if string(params) == "?1049" && s.alternate != (final == 'h') {
			s.alternate = final == 'h'
			s.cells, s.other = s.other, s.cells
		}
	case 'c', 'n':
		s.responses++
	}
}

// program writes what programs write. Its screen is drawn again often enough that a buffer contains all of it.
func program(r *rand.Rand, size int) []byte {
	var out bytes.Buffer
	for drawn := -1; out.Len() < size; {
		if drawn < 0 || out.Len()-drawn > 20_000 {
			drawn = out.Len()
			out.WriteString("\x1b[0m\x1b[2J\x1b[H")
		}
		switch r.IntN(12) {
		case 0:
			fmt.Fprintf(&out, "\x1b[%d;%dH", 1+r.IntN(rows), 1+r.IntN(columns))
		case 1:
			fmt.Fprintf(&out, "\x1b[%dm", 30+r.IntN(8))
		case 2:
			out.WriteString("\x1b[0m")
		case 3:
			out.WriteString([]string{"\x1b[6n", "\x1b[c", "\x1b[>c", "\x1b]11;?\x07", "\x1b]10;?\x1b\\", "\x05", "\x1bZ", "\x1b[?6n"}[r.IntN(8)])
		case 4:
			out.WriteString("\x1b]0;a title with ; and ü\x07")
		case 5:
			out.WriteString("\x1b[K")
		case 6:
			out.WriteString("日本語 grüße €")
		case 7:
			fmt.Fprintf(&out, "\x1b[?1049%c", "hl"[r.IntN(2)])
			out.WriteString("\x1b[2J\x1b[H")
		default:
			out.WriteString(strings.Repeat(string(rune('a'+r.IntN(26))), 1+r.IntN(30)) + "\r\n")
		}
	}
	return out.Bytes()
}

// The screen after a reload at any byte equals the screen without one, and the replay contains no query.
func TestReplayAtAThousandCuts(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(18, 915))
	for n := range 1000 {
		size := 2000
		if n%10 == 0 {
			size = Size + 40_000
		}
		all := program(r, size)
		cut := len(all) - r.IntN(1000)
		var buffer Buffer
		var whole, again screen
		for rest := all[:cut]; len(rest) > 0; {
			part := rest[:min(len(rest), 1+r.IntN(4000))]
			buffer.Write(part)
			rest = rest[len(part):]
		}
		whole.write(all)
		again.write(buffer.Replay())
		if again.responses != 0 {
			t.Fatalf("cut %d: the replay contains %d queries", n, again.responses)
		}
		again.write(all[cut:])
		// The other screen may be one that was last drawn before the first byte of the buffer.
		if whole.cells != again.cells || whole.alternate != again.alternate || whole.style != again.style {
			t.Fatalf("cut %d of %d bytes: the screens differ", n, cut)
		}
	}
}

func TestQueries(t *testing.T) {
	t.Parallel()
	for _, q := range []string{
		"\x1b[c", "\x1b[>0c", "\x1b[=c", "\x1b[5n", "\x1b[?6n", "\x1b]4;1;?\x07", "\x1b]12;?\x1b\\", "\x1b]52;c;?\x07", "\x1bP$qm\x1b\\", "\x1bP+q544e\x1b\\", "\x1b[18t",
		"\x1b[?2026$p", "\x1b[>0q", "\x1b[?u", "\x1bZ", "\x05", "\x1b[?1;1;0S", "\x1b[6\nn", "\x1b]11;?\x1b[6n", "\x1b[3\x1bZ", "\xf4\x05",
	} {
		if got := Filter([]byte("a" + q + "b")); strings.ReplaceAll(string(got), "\x1b\\", "") != "ab" {
			t.Errorf("%q became %q", q, got)
		}
	}
	for _, keep := range []string{
		"\x1b[31m", "\x1b[?1049h", "\x1b]0;why?\x07", "\x1b]8;;https://x/?a\x1b\\link", "\x1b[8;24;80t", "\x1b[!p", "\x1b[2 q", "\x1b[S", "\x1b(B", "é\xff", "\x1b[6", "\x1b]11;?",
		"\x1b[3\x18n", "\x1b]0;" + strings.Repeat("x", 1000) + ";?\x07",
	} {
		if got := Filter([]byte(keep)); string(got) != keep {
			t.Errorf("%q became %q", keep, got)
		}
	}
}

func FuzzReplay(f *testing.F) {
	f.Add([]byte("a\x1b[6nb\x1b]11;?\x07\xe2\x82"), 3)
	f.Add([]byte("\x1bP$q\x1b[\x18\x1b[?1049h"), 5)
	f.Fuzz(func(t *testing.T, p []byte, cut int) {
		once := Filter(p)
		if twice := Filter(once); len(twice) > len(once) {
			t.Fatalf("%q became longer: %q", once, twice)
		}
		var whole, filtered screen
		whole.write(p)
		filtered.write(once)
		if whole.cells != filtered.cells || whole.x != filtered.x || whole.y != filtered.y {
			t.Fatalf("%q and %q differ", p, once)
		}
		var r Buffer
		for range 3 {
			r.Write(bytes.Repeat(p, max(1, min(40_000/max(1, len(p)), 1000))))
		}
		if len(r.Replay()) > Size+4096 {
			t.Fatal("a replay is larger than its buffer")
		}
	})
}

// Text that is skipped leaves what reading each of its bytes leaves, wherever the output is cut.
func TestSkippedTextIsReadAsEachByte(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	out := program(r, 200_000)
	for i := range 200 {
		out[r.IntN(len(out))] = []byte{0x1b, 0xf0, 0x9f, 0x80, 0xc3, 0x18, 0xe2}[i%7] // torn characters and sequences
	}
	var fast, slow Buffer
	for rest := out; len(rest) > 0; {
		n := min(1+r.IntN(50), len(rest))
		fast.drop(rest[:n])
		for _, c := range rest[:n] {
			if slow.tail.step(c) {
				slow.retain(slow.tail.unit)
			}
		}
		rest = rest[n:]
		if fast.tail.state != slow.tail.state || fast.tail.state == continued && fast.tail.more != slow.tail.more || !bytes.Equal(fast.before(), slow.before()) {
			t.Fatalf("%d bytes before the end: state %v and %q, want %v and %q", len(rest), fast.tail.state, fast.before(), slow.tail.state, slow.before())
		}
	}
}

// A buffer stores the last bytes in a fixed amount of memory.
func TestBufferHasTheLastBytes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	var b Buffer
	var all []byte
	for i := range 400 {
		p := bytes.Repeat([]byte{byte('a' + i%26)}, 1+r.IntN(100<<r.IntN(11)))
		b.Write(p)
		all = append(all, p...)
		if got, want := b.Replay(), all[max(0, len(all)-Size):]; !bytes.Equal(got, want) {
			t.Fatalf("write %d: %d bytes, want the last %d", i, len(got), len(want))
		}
	}
	if cap(b.last) != Size {
		t.Errorf("%d bytes of memory, want %d", cap(b.last), Size)
	}
}
