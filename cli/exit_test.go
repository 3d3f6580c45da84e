package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// Exit codes are a promise to scripts. The file shows every change and every new code, for which a
// developer must choose an exit code.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, code := range errs.All() {
		fmt.Fprintf(&b, "%d %s\n", output.ExitOf(code), code)
	}
	want, err := os.ReadFile("testdata/exit-codes.golden")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	coded := errs.New(errs.Conflict, "locked by process 7").Try("stop it")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx     context.Context //nolint:containedctx // what is tested
		err     error
		started bool
		want    output.CommandError
	}{
		"cobra's errors are about usage":        {err: errors.New("unknown flag: --x"), want: output.CommandError{Code: "usage", Message: "unknown flag: --x", Exit: 2}},
		"so are flags that it finds late":       {err: errors.New(`required flag(s) "x" not set`), started: true, want: output.CommandError{Code: "usage", Message: `required flag(s) "x" not set`, Exit: 2}},
		"a code stays with what was being done": {err: fmt.Errorf("starting: %w", coded), started: true, want: output.CommandError{Code: "conflict", Message: "starting: locked by process 7", Exit: 6}},
		"no code is our fault":                  {err: errors.New("disk full"), started: true, want: output.CommandError{Code: "internal", Message: "disk full", Exit: 1}},
		"interrupted by the person":             {ctx: ended, err: context.Canceled, started: true, want: output.CommandError{Code: "interrupted", Message: "interrupted", Exit: 130}},
		"a cancelled part is no interrupt":      {err: context.Canceled, started: true, want: output.CommandError{Code: "internal", Message: "context canceled", Exit: 1}},
		"a failure stays what it was":           {err: fmt.Errorf("x: %w", &output.CommandError{Message: "m", Code: "c", Exit: 8}), started: true, want: output.CommandError{Code: "c", Message: "m", Exit: 8}},
		"the server's code from far inside":     {err: errors.Join(nil, &output.CommandError{Message: "m", Code: "c", Exit: 3}), started: true, want: output.CommandError{Code: "c", Message: "m", Exit: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			if c.ctx != nil {
				ctx = c.ctx
			}
			a := console(t, nil)
			a.Started = c.started
			got := a.Explain(ctx, c.err)
			if got.Code != c.want.Code || got.Message != c.want.Message || got.Exit != c.want.Exit || got.Try == "" {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestFourLines(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	(&output.CommandError{Message: "two\nlines", Code: "c", Try: "this", Exit: 1}).Print(&b)
	if want := "Error: two lines\nCode: c\nTry: this\nCorrelation: -\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}

// Ctrl-C at the question: 130, and nothing was done.
func TestInterruptedQuestion(t *testing.T) {
	t.Parallel()
	f, server := newFake(t)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	never, hold := io.Pipe() // a person who thinks
	defer func() { _ = hold.Close() }()
	a := console(t, map[string]string{"GPUAAS_URL": server.URL, "GPUAAS_TOKEN": goodToken})
	a.In, a.Out, a.Err, a.Terminal = never, io.Discard, after("Create this allocation?", cancel), true
	if code := execute(ctx, a, []string{"alloc", "create", "--sku", "h100-80gb"}); code != output.ExitInterrupted {
		t.Errorf("exit %d", code)
	}
	if len(f.items) != 0 {
		t.Error("it was created")
	}
}

// after calls back once a text was written.
type onText struct {
	text string
	do   func()
}

func after(text string, do func()) io.Writer { return onText{text, do} }

func (o onText) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(o.text)) {
		o.do()
	}
	return len(p), nil
}

// Ctrl-C while waiting: 130, and the allocation is left alone.
func TestInterruptedWait(t *testing.T) {
	t.Parallel()
	f, server := newFake(t)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		for f.readsOf("stuck") < 2 && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	a := console(t, map[string]string{"GPUAAS_URL": server.URL, "GPUAAS_TOKEN": goodToken})
	var out, complaint bytes.Buffer
	a.Out, a.Err, a.In = &out, &complaint, strings.NewReader("")
	if code := execute(ctx, a, []string{"alloc", "create", "--sku", "h100-80gb", "--name", "stuck", "--yes", "--wait"}); code != output.ExitInterrupted {
		t.Errorf("exit %d: %s", code, complaint.String())
	}
	if len(f.items) != 1 || f.items[0].Status != "requested" {
		t.Errorf("left behind: %+v", f.items)
	}
}

// Ctrl-C while waiting for a payment: 130, and the page stays good.
func TestInterruptedTopUp(t *testing.T) {
	t.Parallel()
	f, server := newFake(t)
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	a := console(t, map[string]string{"GPUAAS_URL": server.URL, "GPUAAS_TOKEN": goodToken})
	a.In, a.Out, a.Err = strings.NewReader(""), &out, after("waiting for the payment", cancel)
	if code := execute(ctx, a, []string{"balance", "top-up", "88"}); code != output.ExitInterrupted {
		t.Errorf("exit %d: %s", code, out.String())
	}
	if p := f.purse.payments; len(p) != 1 || p[0].Status != "initiated" {
		t.Errorf("left behind: %+v", p)
	}
}
