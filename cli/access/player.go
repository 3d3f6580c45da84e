package access

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/gpuaas/gpuaas/cli/output"
)

// player prints an asciicast with its timing.
type player struct {
	out   io.Writer
	speed float64
	idle  time.Duration // the longest pause; 0: no limit
	safe  sanitizer
}

// restored ends what recorded programs may have begun: the alternate screen, attributes, a hidden cursor, reports of the mouse.
const restored = "\x1b[?1049l\x1b[0m\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\r\n"

// watch plays in the terminal of the user. What that terminal responds to recorded queries is discarded.
func (p *player) watch(ctx context.Context, a *output.Console, cast io.Reader) error {
	if !a.Terminal {
		return p.play(ctx, cast)
	}
	local := int(os.Stdin.Fd())
	state, err := term.MakeRaw(local)
	if err != nil {
		return fmt.Errorf("preparing the terminal: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		keys := make([]byte, 64)
		for {
			n, err := a.In.Read(keys)
			if err != nil || n == 1 && (keys[0] == 'q' || keys[0] == 3) {
				cancel()
				return
			}
		}
	}()
	err = p.play(ctx, cast)
	_, _ = io.WriteString(p.out, restored)
	time.Sleep(lateResponses)
	_ = term.Restore(local, state)
	return err
}

// lateResponses is the time for a terminal to respond to the last query.
const lateResponses = 50 * time.Millisecond

// play prints the output until it or ctx ends.
func (p *player) play(ctx context.Context, cast io.Reader) error {
	lines := bufio.NewReader(cast)
	if _, err := lines.ReadBytes('\n'); err != nil { // the header
		return fmt.Errorf("reading the recording: %w", err)
	}
	last := 0.0
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return nil //nolint:nilerr // its end
		}
		var at float64
		var kind, data string
		if err := json.Unmarshal(line, &[]any{&at, &kind, &data}); err != nil {
			return fmt.Errorf("reading the recording: %w", err)
		}
		if kind != "o" {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(p.pause(at - last)):
		}
		last = at
		if _, err := io.WriteString(p.out, p.safe.clean(data)); err != nil {
			return fmt.Errorf("printing: %w", err)
		}
	}
}

func (p *player) pause(seconds float64) time.Duration {
	d := time.Duration(seconds / p.speed * float64(time.Second))
	if p.idle > 0 {
		d = min(d, p.idle)
	}
	return d
}

// sanitizer removes commands that act outside of the screen: the clipboard, the title, links, and strings to the terminal. They
// may be torn, and a user may have recorded them for the user who plays the recording.
type sanitizer struct {
	state int
	osc   bool
}

// The states of the sanitizer.
const (
	inText = iota
	inEscape
	inString
	inStringEscape
)

func (s *sanitizer) clean(text string) string {
	var out strings.Builder
	for _, r := range text {
		switch s.state {
		case inEscape, inStringEscape:
			s.escaped(&out, r)
		case inString:
			switch {
			case r == 0x1b:
				s.state = inStringEscape
			case r == 0x18, r == 0x1a, r == 0x07 && s.osc:
				s.state = inText
			}
		default:
			switch {
			case r == 0x1b:
				s.state = inEscape
			case r == 0x05, r >= 0x80 && r < 0xa0: // ENQ, and controls that some terminals read as escape sequences
			default:
				out.WriteRune(r)
			}
		}
	}
	return out.String()
}

// escaped reads what follows an escape character.
func (s *sanitizer) escaped(out *strings.Builder, r rune) {
	ended := s.state == inStringEscape && r == '\\'
	switch {
	case r == 0x1b:
		s.state = inEscape
	case r == 0x18, r == 0x1a: // they end the sequence
		s.state = inText
	case r < 0x20, r >= 0x7f && r < 0xa0: // a terminal continues the sequence after them
	case strings.ContainsRune("]PX^_", r):
		s.state, s.osc = inString, r == ']'
	case ended:
		s.state = inText
	default:
		s.state = inText
		out.WriteString("\x1b" + string(r))
	}
}
