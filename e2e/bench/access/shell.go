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

	close func() error
}

// terminal is a shell behind a websocket.
type terminal struct {
	shell

	id string // of the session
}

// frames reads the output of a terminal as a stream.
type frames struct {
	ctx  context.Context //nolint:containedctx // of the measurement
	conn *websocket.Conn
	left []byte
	id   *string
}

func newTerminal(ctx context.Context, conn *websocket.Conn) *terminal {
	t := &terminal{}
	f := &frames{ctx: ctx, conn: conn, id: &t.id}
	t.shell = shell{f, f, conn.CloseNow}
	return t
}

func (f *frames) Read(p []byte) (int, error) {
	for len(f.left) == 0 {
		kind, message, err := f.conn.Read(f.ctx)
		switch {
		case err != nil:
			return 0, err
		case kind == websocket.MessageBinary:
			f.left = message
			continue
		}
		var m struct{ Type, ID string }
		if err := json.Unmarshal(message, &m); err == nil && m.Type == "session" {
			*f.id = m.ID
		}
	}
	n := copy(p, f.left)
	f.left = f.left[n:]
	return n, nil
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

func pemOf(b *pem.Block) []byte { return pem.EncodeToMemory(b) }
