package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

func NewTour(a *output.Console) *cobra.Command {
	var fast, own bool
	timeout := 3 * time.Minute
	cmd := &cobra.Command{
		Use: "tour", Short: "Run the guided demonstration", Args: cobra.NoArgs,
		Long: `Runs the life of one allocation against the installation of the profile. Without a local
installation the command starts its own and removes it afterwards. Each step prints its command
and the verified result. The first failed check ends the tour with exit 1.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return runTour(ctx, a, own, fast || !a.CanPrompt())
		},
	}
	cmd.Flags().BoolVar(&fast, "fast", false, "no pauses; without a terminal there are none")
	cmd.Flags().BoolVar(&own, "own", false, "start an installation for the tour even when one runs")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "time limit of the tour")
	return cmd
}

// tour is one run of the demonstration.
type tour struct {
	app *output.Console
	api *client.Client // as the tenant
	ops *client.Client // as an operator, who may read nodes and plans
	// opsProfile goes before the operator's commands; empty when the tenant is one.
	opsProfile []string
	fast       bool

	results // what was found on the way
}

// step is a part of the tour: it runs commands and then checks their effect.
type step struct {
	title string
	play  func(context.Context) error
}

func runTour(ctx context.Context, a *output.Console, own, fast bool) (err error) {
	t := &tour{app: a, fast: fast}
	began := a.Clock.Now()
	if own || !runsHere(ctx, a) {
		var stop func(failed error)
		if stop, err = t.startOwn(ctx); err != nil {
			return err
		}
		defer func() { stop(err) }()
	}
	if err = t.signIn(); err != nil {
		return err
	}
	defer t.tidy(ctx)

	steps := t.steps()
	for i, s := range steps {
		t.print("\n── %d/%d %s\n", i+1, len(steps), s.title)
		if err = s.play(ctx); err != nil {
			return t.broke(ctx, fmt.Sprintf("step %d of %d, %s", i+1, len(steps), s.title), err)
		}
		if err = t.pause(ctx); err != nil {
			return err
		}
	}
	t.print("\n%s All %d steps succeeded in %.1f s.\n", output.SymbolGood, len(steps), a.Clock.Now().Sub(began).Seconds())
	return nil
}

// signIn reads the profile and the operator profile that up has written next to it.
func (t *tour) signIn() (err error) {
	if t.api, err = client.Connect(t.app); err != nil {
		return err
	}
	t.ops = t.api
	if name := client.OperatorProfile(t.app); name != "" {
		t.opsProfile = []string{"--profile", name}
		as := *t.app
		as.Profile = name
		t.ops, err = client.Connect(&as)
	}
	return err
}

// operate is run as an operator.
func (t *tour) operate(ctx context.Context, args ...string) (string, error) {
	return t.run(ctx, slices.Concat(t.opsProfile, args)...)
}

// broke adds the step's name to its error.
func (t *tour) broke(ctx context.Context, where string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	f := &output.CommandError{
		Message: where + ": " + err.Error(), Code: output.CodeTour, Try: "gpuaas events and gpuaas get plans list the details",
		Correlation: t.app.Correlation, Exit: output.ExitFailure,
	}
	if t.name != "" {
		f.Try = "gpuaas describe alloc " + t.name
	}
	return f
}

// runsHere reports whether the profile's installation responds and is local, so that the tour can
// inject faults.
func runsHere(ctx context.Context, a *output.Console) bool {
	c, err := client.Connect(a)
	if err != nil || c.Settings.DataDir == "" {
		return false
	}
	within, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, _, err = publicHealth(within, c)
	return err == nil
}

func (t *tour) print(format string, args ...any) { _, _ = fmt.Fprintf(t.app.Out, format, args...) }

func (t *tour) printChecked(format string, args ...any) {
	t.print("%s verified: %s\n", output.SymbolGood, fmt.Sprintf(format, args...))
}

// Long enough to read ten lines.
const readingTime = 1500 * time.Millisecond

func (t *tour) pause(ctx context.Context) error {
	if t.fast {
		return nil
	}
	return client.Sleep(ctx, readingTime)
}

// run plays one command as a person would type it and returns what it printed.
func (t *tour) run(ctx context.Context, args ...string) (string, error) {
	t.print("$ gpuaas %s\n", strings.Join(args, " "))
	return t.play(ctx, Indented(t.app.Out), "", args...)
}

// quietly is run without showing it, for what only the tour wants to know.
func (t *tour) quietly(ctx context.Context, args ...string) (string, error) {
	return t.play(ctx, io.Discard, "", args...)
}

func (t *tour) play(ctx context.Context, shown io.Writer, input string, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	sub := alone(t.app)
	sub.In = strings.NewReader(input)
	sub.Out = io.MultiWriter(&out, shown)
	sub.Err = io.MultiWriter(&complaint, shown)
	if code := sub.Execute(ctx, sub, args); code != output.ExitOK {
		return out.String(), fmt.Errorf("gpuaas %s: exit %d: %s", strings.Join(args, " "), code, output.OneLine(complaint.String()))
	}
	return out.String(), nil
}

// alone returns a console for another command line. Its flags have their defaults, so chosen
// profiles are passed in the environment. The output format is that of the tour alone.
func alone(a *output.Console) *output.Console {
	chosen := map[string]string{
		"GPUAAS_PROFILE": a.Profile, "GPUAAS_URL": a.Url, "GPUAAS_PROJECT": a.Project,
	}
	env := func(name string) string {
		if value := chosen[name]; value != "" {
			return value
		}
		if name == "GPUAAS_OUTPUT" {
			return ""
		}
		return a.Env(name)
	}
	return &output.Console{In: strings.NewReader(""), Out: a.Out, Err: a.Err, Env: env, Clock: a.Clock, Correlation: a.Correlation, Execute: a.Execute}
}

// until polls for an expected state and fails with the last one.
func (t *tour) until(ctx context.Context, what string, look func(context.Context) (bool, string, error)) error {
	// Several times what the slowest of them needs: a report every two seconds,
	// money every ten.
	const patience, every = 40 * time.Second, 100 * time.Millisecond
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	last := "nothing"
	for {
		done, saw, err := look(within)
		switch {
		case err == nil && done:
			t.printChecked("%s", what)
			return nil
		case err == nil:
			last = saw
		case within.Err() == nil && client.CodeOf(err) != errs.Unavailable:
			return err // asking again would be answered the same
		case within.Err() == nil:
			last = err.Error()
		}
		if client.Sleep(within, every) == nil {
			continue
		}
		if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
			return ctx.Err()
		}
		return fmt.Errorf("expected: %s; still: %s", what, last)
	}
}

// Indented shifts what a command prints under its command line.
func Indented(w io.Writer) io.Writer { return &shifted{w: w, fresh: true} }

type shifted struct {
	w     io.Writer
	fresh bool
}

func (s *shifted) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if s.fresh {
			if _, err := io.WriteString(s.w, "  "); err != nil {
				return 0, err
			}
		}
		if _, err := s.w.Write(line); err != nil {
			return 0, err
		}
		s.fresh = bytes.HasSuffix(line, []byte("\n"))
	}
	return len(p), nil
}
