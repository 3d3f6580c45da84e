package validate

import (
	"context"
	"encoding/json"
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

// message is a line of the child: which unit it touches next, or the answer.
type message struct {
	Unit   string  `json:"unit,omitempty"`
	Result *Result `json:"result,omitempty"`
	Failed string  `json:"failed,omitempty"` // ours, not the author's
}

// Child does the work and exits when this process is a validation child, and
// returns at once when it is not. Every binary that calls Run calls it first
// thing in main, and every test binary in TestMain.
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
	answer := json.NewEncoder(out)
	result, err := evaluate(r.Files, func(unit string) {
		_ = answer.Encode(message{Unit: unit}) //nolint:errchkjson // without a reader the last answer fails too
	})
	if err != nil {
		return answer.Encode(message{Failed: err.Error()})
	}
	return answer.Encode(message{Result: &result})
}
