package logs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/protocol"
)

var birth = time.UnixMicro(1767603604000000).UTC()

func line(us int, text string) Line {
	return Line{birth.Add(time.Duration(us) * time.Microsecond), text}
}

// source sends past lines, and then those of live until it is closed.
func source(live <-chan Line, past ...Line) Source {
	return func(ctx context.Context, s Scope, each func(Line)) error {
		for _, l := range past {
			if !l.At.Before(s.Since) {
				each(l)
			}
		}
		for s.Follow {
			select {
			case <-ctx.Done():
				return nil
			case l, more := <-live:
				if !more {
					return errors.New("the source ended")
				}
				each(l)
			}
		}
		return nil
	}
}

// read runs a query to its end and returns its items.
func read(t *testing.T, q protocol.LogQuery, s Scope, sources ...Source) (items []protocol.LogItem) {
	t.Helper()
	f := NewFeed(birth)
	if err := Run(t.Context(), q, s, f, sources...); err != nil {
		t.Fatal(err)
	}
	items, _, _ = f.Next(birth)
	return items
}

func texts(items []protocol.LogItem) string {
	var all []string
	for _, i := range items {
		if i.Dropped > 0 {
			i.Text = fmt.Sprintf("-%d", i.Dropped)
		}
		all = append(all, i.Text)
	}
	return strings.Join(all, " ")
}

// after returns the query of a client that resumes after a line.
func after(i protocol.LogItem) protocol.LogQuery {
	c, _ := protocol.ParseLogCursor(i.Cursor().String())
	return protocol.LogQuery{Tail: protocol.MaxLogTail, Since: c.First.At, Skip: c.First.Number, Second: c.Second}
}

// Each cursor continues with exactly the lines after it, also among lines of the same microsecond and of two sources.
func TestAStreamResumesAfterEachLine(t *testing.T) {
	t.Parallel()
	one, two := source(nil, line(1, "a"), line(5, "b"), line(5, "c"), line(9, "e")), source(nil, line(5, "d"), line(9, "f"))
	all := read(t, protocol.LogQuery{Tail: 100}, Scope{}, one, two)
	if texts(all) != "a b c d e f" {
		t.Fatalf("%s", texts(all))
	}
	for n, last := range all {
		got := read(t, after(last), Scope{}, one, two)
		if texts(got) != texts(all[n+1:]) {
			t.Errorf("after %s: %s, want %s", last.Text, texts(got), texts(all[n+1:]))
		}
	}
	if got := read(t, protocol.LogQuery{Tail: 2}, Scope{}, one, two); texts(got) != "e f" {
		t.Errorf("the last two: %s", texts(got))
	}
	if got := read(t, protocol.LogQuery{Tail: 100, Since: 1}, Scope{Since: birth.Add(9 * time.Microsecond)}, one, two); texts(got) != "e f" {
		t.Errorf("the account had another tenant before: %s", texts(got))
	}
	// A client that was away for longer than the limits allow learns how many lines are missing.
	gap := after(all[0])
	gap.Tail = 2
	if got := read(t, gap, Scope{}, one, two); texts(got) != "-3 e f" {
		t.Errorf("with a gap: %s", texts(got))
	}
}

// Following continues where the lines before it end, without a line twice or a missing one. The end of a source is the end.
func TestFollowing(t *testing.T) {
	t.Parallel()
	live := make(chan Line, 10)
	f := NewFeed(birth)
	live <- line(2, "c") // written while the stream began
	live <- line(3, "d")
	live <- line(1, "late")
	close(live)
	err := Run(t.Context(), protocol.LogQuery{Tail: 10, Follow: true}, Scope{}, f, source(live, line(1, "a"), line(2, "b")))
	if err == nil || err.Error() != "the source ended" {
		t.Errorf("%v", err)
	}
	items, _, _ := f.Next(birth)
	if texts(items) != "a b c d late" {
		t.Errorf("%s", texts(items))
	}
	for i := 1; i < len(items); i++ {
		if a, b := items[i-1], items[i]; b.At < a.At || b.At == a.At && b.Number <= a.Number {
			t.Errorf("the cursor of %s does not rise: %+v", b.Text, items)
		}
	}
}

// A flood is bounded in memory, lines and bytes per second, and the dropped lines are counted where they are missing.
func TestAFloodIsBounded(t *testing.T) {
	t.Parallel()
	f := NewFeed(birth)
	text := strings.Repeat("x", 1000)
	const sent = 20000
	for range sent {
		if err := f.Add(t.Context(), protocol.LogItem{At: 1, Text: text}, false); err != nil {
			t.Fatal(err)
		}
	}
	if f.size > maxWaitingBytes+2000 {
		t.Errorf("%d bytes wait", f.size)
	}
	received, dropped := 0, 0
	take := func(now time.Time) (bytes int) {
		items, _, _ := f.Next(now)
		for _, i := range items {
			if dropped += i.Dropped; i.Dropped == 0 {
				received++
			}
			bytes += len(i.Text)
		}
		return bytes
	}
	now := birth
	if n := take(now); n > burstBytes+len(text) {
		t.Errorf("%d bytes at once", n)
	}
	for range 4 {
		_ = f.Add(t.Context(), protocol.LogItem{At: 2, Text: text}, false)
	}
	total := 0
	for range 10 {
		now = now.Add(time.Second)
		for range 1000 {
			_ = f.Add(t.Context(), protocol.LogItem{At: 3, Text: text}, false)
		}
		total += take(now)
	}
	if total > 10*(bytesPerSecond+len(text)) {
		t.Errorf("%d bytes in 10 seconds", total)
	}
	f.End("")
	for range 10 {
		now = now.Add(time.Second)
		take(now)
	}
	if all := sent + 4 + 10000; received+dropped != all {
		t.Errorf("%d lines received and %d dropped of %d", received, dropped, all)
	}
	if _, over, _ := f.Next(now); !over {
		t.Error("the end is not reported")
	}
}

// entry writes an entry as journald exports it.
func entry(at time.Time, message []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "__CURSOR=s=1;i=2\n__REALTIME_TIMESTAMP=%d\n", at.UnixMicro())
	if bytes.ContainsFunc(message, func(r rune) bool { return r < ' ' }) || len(message) > 1<<16 {
		b.WriteString("MESSAGE\n")
		_ = binary.Write(&b, binary.LittleEndian, uint64(len(message)))
		b.Write(message)
		b.WriteString("\n")
	} else {
		fmt.Fprintf(&b, "MESSAGE=%s\n", message)
	}
	return append(b.Bytes(), '\n')
}

// Messages of any length and content are one line each, and none hides the next one.
func TestTheJournalIsRead(t *testing.T) {
	t.Parallel()
	huge := bytes.Repeat([]byte("a"), 1<<20)
	binaryLine := []byte("\x00\x01\n\nMESSAGE=forged\n__REALTIME_TIMESTAMP=1\n\n\xff")
	var in []byte
	for i, m := range [][]byte{[]byte("first"), huge, binaryLine, []byte("a=b"), {}, []byte("last")} {
		in = append(in, entry(birth.Add(time.Duration(i)*time.Second), m)...)
	}
	var got []string
	err := ReadExport(bytes.NewReader(in), func(at time.Time, message string) error {
		if want := birth.Add(time.Duration(len(got)) * time.Second); !at.Equal(want) {
			t.Errorf("line %d is of %s, want %s", len(got), at, want)
		}
		got = append(got, message)
		return nil
	})
	if err != nil || len(got) != 6 || got[0] != "first" || len(got[1]) != maxMessage || got[2] != string(binaryLine) || got[3] != "a=b" || got[5] != "last" {
		t.Errorf("%d lines, %v", len(got), err)
	}
	for _, cut := range []string{"MESSAGE\n\xff\xff\xff\xff\xff\xff\xff\xff", "MESSAGE\n\x05\x00\x00\x00\x00\x00\x00\x00ab"} {
		if err := ReadExport(strings.NewReader(cut), func(time.Time, string) error { return nil }); err == nil {
			t.Errorf("%q is accepted", cut)
		}
	}
}

func FuzzReadExport(f *testing.F) {
	f.Add(entry(birth, []byte("a\nb")))
	f.Fuzz(func(t *testing.T, in []byte) {
		_ = ReadExport(bytes.NewReader(in), func(_ time.Time, message string) error {
			if len(message) > maxMessage {
				t.Errorf("a message of %d bytes", len(message))
			}
			return nil
		})
	})
}

// Whatever the times of two sources are within a minute, and wherever a stream is cut, also with unfinished writes of both, each line
// is received once and in the sequence of its source.
func TestLateLinesAreReceivedOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		var whole [2][]Line
		for i := range whole {
			for n := range random.IntN(12) {
				at := int(seed)*100 + n + random.IntN(4) // several of one microsecond
				if random.IntN(5) == 0 {
					at -= random.IntN(int(overlap / time.Microsecond / 2)) // late, or the clock was set back
				}
				whole[i] = append(whole[i], line(at, fmt.Sprintf("%c%d", 'a'+i, n)))
			}
		}
		var received []protocol.LogItem
		query, written := protocol.LogQuery{Tail: protocol.MaxLogTail}, [2]int{}
		for written[0] < len(whole[0]) || written[1] < len(whole[1]) || random.IntN(2) == 0 {
			var sources []Source
			for i, lines := range whole {
				written[i] += random.IntN(len(lines) - written[i] + 1)
				sources = append(sources, source(nil, lines[:written[i]]...))
			}
			got := read(t, query, Scope{Since: birth.Add(-time.Hour)}, sources...)
			if cut := random.IntN(len(got) + 1); cut > 0 {
				received = append(received, got[:cut]...)
				query = after(got[cut-1])
			}
		}
		received = append(received, read(t, query, Scope{Since: birth.Add(-time.Hour)}, source(nil, whole[0]...), source(nil, whole[1]...))...)
		for i, lines := range whole {
			var got, want []string
			for _, item := range received {
				if item.Second == (i > 0) {
					got = append(got, item.Text)
				}
			}
			for _, l := range lines {
				want = append(want, l.Text)
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: received %q of %q", seed, got, want)
			}
		}
	}
}
