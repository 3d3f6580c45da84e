package access

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"

	"github.com/coder/websocket"
)

// shell is a shell in a terminal, however it is reached.
type shell struct {
	io.Reader
	io.Writer

	close    func() error
	terminal *terminal // nil for an SSH client
}

// terminal is a shell behind a websocket.
type terminal struct {
	shell

	id       string // of the session
	recorded bool
}

// frames reads the output of a terminal as a stream.
type frames struct {
	ctx   context.Context //nolint:containedctx // of the measurement
	conn  *websocket.Conn
	left  io.Reader // the rest of a message
	owner *terminal
}

func newTerminal(ctx context.Context, conn *websocket.Conn) *terminal {
	t := &terminal{}
	f := &frames{ctx: ctx, conn: conn, owner: t}
	t.shell = shell{f, f, conn.CloseNow, t}
	return t
}

func (f *frames) Read(p []byte) (int, error) {
	for {
		if f.left != nil {
			n, err := f.left.Read(p)
			if errors.Is(err, io.EOF) {
				f.left, err = nil, nil
			}
			if n > 0 || err != nil {
				return n, err
			}
		}
		kind, message, err := f.conn.Reader(f.ctx)
		if err != nil {
			return 0, err
		}
		if kind == websocket.MessageBinary {
			f.left = message
			continue
		}
		var m struct {
			Type, ID string
			Recorded bool
		}
		if err := json.NewDecoder(message).Decode(&m); err == nil && m.Type == "session" {
			f.owner.id, f.owner.recorded = m.ID, m.Recorded
		}
		if _, err := io.Copy(io.Discard, message); err != nil {
			return 0, err
		}
	}
}

func (f *frames) Write(p []byte) (int, error) {
	return len(p), f.conn.Write(f.ctx, websocket.MessageBinary, p)
}

// until reads until text arrives, and returns the number of bytes. The text may be split.
func (s *shell) until(text string) (read int, err error) {
	p := make([]byte, 64<<10)
	var tail []byte
	for {
		n, err := s.Read(p)
		read += n
		tail = append(tail, p[:n]...)
		if bytes.Contains(tail, []byte(text)) {
			return read, nil
		}
		if err != nil {
			return read, fmt.Errorf("waiting for %q after %d bytes: %w", text, read, err)
		}
		tail = tail[max(0, len(tail)-len(text)):]
	}
}

func (s *shell) types(text string) error {
	if _, err := io.WriteString(s, text); err != nil {
		return fmt.Errorf("typing: %w", err)
	}
	return nil
}

// quiet makes a shell print no echo of what is typed, and no prompt that a measurement would count.
func (s *shell) quiet() error {
	if err := s.types("stty -echo; PS1=; echo rea''dy\n"); err != nil {
		return err
	}
	_, err := s.until("ready")
	return err
}

// flood prints n bytes and waits for all of them.
func (s *shell) flood(n int) error {
	if err := s.types(fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; echo do''ne\n", n)); err != nil {
		return err
	}
	read, err := s.until("done")
	if err == nil && read < n {
		err = errors.New("the shell printed too little")
	}
	return err
}

// exit ends the shell, and waits for the end of the session.
func (t *terminal) exit() error {
	if err := t.types("exit\n"); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, t)
	if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		return fmt.Errorf("ending a terminal: %w", err)
	}
	return nil
}

func pemOf(b *pem.Block) []byte { return pem.EncodeToMemory(b) }
