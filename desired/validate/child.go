package validate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// childMark in the environment makes this binary evaluate one request and exit.
const childMark = "GPUAAS_VALIDATE_CHILD"

type request struct {
	Limits Limits            `json:"limits"`
	Files  map[string][]byte `json:"files"`
}

// message is a line of the child: which unit it touches next, what it found in it,
// or the end.
type message struct {
	Unit   string    `json:"unit,omitempty"`
	Part   *partWire `json:"part,omitempty"` // of that unit
	Done   bool      `json:"done,omitempty"`
	Failed string    `json:"failed,omitempty"` // ours, not the author's
}

// Child validates and exits if this process is a validation child, and returns at once otherwise.
// Every binary that calls Run calls Child first in main, and every test binary in TestMain.
func Child() {
	if os.Getenv(childMark) == "" {
		return
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // this is the main of the child
	defer cancel()
	if err := serve(ctx, os.Stdin, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // nothing to cancel in a process that ends
	}
	os.Exit(0)
}

func serve(ctx context.Context, in io.Reader, out io.Writer) error {
	var r request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("reading request: %w", err)
	}
	if err := confine(ctx, r.Limits); err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(out, 1<<16)
	answer := json.NewEncoder(buffered)
	answer.SetEscapeHTML(false)
	c, err := New()
	if err != nil {
		return errors.Join(answer.Encode(message{Failed: err.Error()}), buffered.Flush())
	}
	for _, u := range unitsOf(r.Files) {
		// Flushed before the unit is touched: when this process is killed, that is the
		// one to blame.
		if err := errors.Join(answer.Encode(message{Unit: u.name}), buffered.Flush()); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
		found := u.evaluate(c, r.Files).wire(u.name)
		if err := answer.Encode(message{Part: &found}); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
	return errors.Join(answer.Encode(message{Done: true}), buffered.Flush())
}
