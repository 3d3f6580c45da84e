package main

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

	"github.com/gpuaas/gpuaas/internal/errs"
)

func newTour(a *app) *cobra.Command {
	var fast, own bool
	timeout := 3 * time.Minute
	cmd := &cobra.Command{
		Use: "tour", Short: "The whole story in a minute: create, look, drift, heal, fault, release, pay", Args: cobra.NoArgs,
		Long: `Plays the story of one allocation against the installation of the profile, or, when none
runs on this machine, against one of its own that is gone afterwards. Each step prints its
command and what was seen to be true; the first thing that is not ends the tour with exit 1.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return a.tour(ctx, own, fast || !a.canAsk())
		},
	}
	cmd.Flags().BoolVar(&fast, "fast", false, "no pauses for reading; without a terminal there are none anyway")
	cmd.Flags().BoolVar(&own, "own", false, "start an installation for the tour even when one runs")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long the whole tour may take")
	return cmd
}

// tour is one telling of the story.
type tour struct {
	app *app
	api *client // as the tenant
	ops *client // as an operator, who sees machines and plans
	// opsProfile goes before the operator's commands; empty when the tenant is one.
	opsProfile []string
	fast       bool

	story // what was found on the way
}

// step is a part of the story: it plays commands, and then looks whether what
// they say is so.
type step struct {
	title string
	play  func(context.Context) error
}

func (a *app) tour(ctx context.Context, own, fast bool) (err error) {
	t := &tour{app: a, fast: fast}
	began := a.Clock.Now()
	if own || !a.runsHere(ctx) {
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
	t.print("\n%s All %d steps were seen to work, in %.1f s.\n", symbolGood, len(steps), a.Clock.Now().Sub(began).Seconds())
	return nil
}

// signIn takes the profile and, where up has put one beside it, the operator's.
func (t *tour) signIn() (err error) {
	if t.api, err = t.app.client(); err != nil {
		return err
	}
	t.ops = t.api
	if name := t.app.operatorProfile(); name != "" {
		t.opsProfile = []string{"--profile", name}
		as := *t.app
		as.profile = name
		t.ops, err = as.client()
	}
	return err
}

// operate is run as an operator.
func (t *tour) operate(ctx context.Context, args ...string) (string, error) {
	return t.run(ctx, slices.Concat(t.opsProfile, args)...)
}

// broke keeps the words of the step around whatever failed in it.
func (t *tour) broke(ctx context.Context, where string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	f := &failure{
		Message: where + ": " + err.Error(), Code: codeTour, Try: "gpuaas events and gpuaas get plans tell what happened",
		Correlation: t.app.Correlation, Exit: exitFailure,
	}
	if t.name != "" {
		f.Try = "gpuaas describe alloc " + t.name
	}
	return f
}

// runsHere says whether the profile's installation answers and lives on this
// machine, where trouble can be made.
func (a *app) runsHere(ctx context.Context) bool {
	c, err := a.client()
	if err != nil || c.settings.DataDir == "" {
		return false
	}
	within, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, _, err = c.health(within)
	return err == nil
}

func (t *tour) print(format string, args ...any) { _, _ = fmt.Fprintf(t.app.Out, format, args...) }

func (t *tour) seen(format string, args ...any) {
	t.print("%s seen: %s\n", symbolGood, fmt.Sprintf(format, args...))
}

// Long enough to read ten lines.
const readingTime = 1500 * time.Millisecond

func (t *tour) pause(ctx context.Context) error {
	if t.fast {
		return nil
	}
	return sleep(ctx, readingTime)
}

// run plays one command as a person would type it and returns what it printed.
func (t *tour) run(ctx context.Context, args ...string) (string, error) {
	t.print("$ gpuaas %s\n", strings.Join(args, " "))
	return t.play(ctx, indented(t.app.Out), args...)
}

// quietly is run without showing it, for what only the tour wants to know.
func (t *tour) quietly(ctx context.Context, args ...string) (string, error) {
	return t.play(ctx, io.Discard, args...)
}

func (t *tour) play(ctx context.Context, shown io.Writer, args ...string) (string, error) {
	var out, complaint bytes.Buffer
	sub := t.app.alone()
	sub.Out = io.MultiWriter(&out, shown)
	sub.Err = io.MultiWriter(&complaint, shown)
	if code := sub.execute(ctx, args); code != exitOK {
		return out.String(), fmt.Errorf("gpuaas %s: exit %d: %s", strings.Join(args, " "), code, oneLine(complaint.String()))
	}
	return out.String(), nil
}

// alone is the same world for another command line. Its flags start anew, so
// what was chosen by flag goes along in the environment; its form of output is
// the tour's own affair.
func (a *app) alone() *app {
	chosen := map[string]string{
		"GPUAAS_PROFILE": a.profile, "GPUAAS_URL": a.url, "GPUAAS_PROJECT": a.project,
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
	return &app{In: strings.NewReader(""), Out: a.Out, Err: a.Err, Env: env, Clock: a.Clock, Correlation: a.Correlation}
}

// until looks again and again for what should become true, and fails with what
// it saw last.
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
			t.seen("%s", what)
			return nil
		case err == nil:
			last = saw
		case within.Err() == nil && codeOf(err) != errs.Unavailable:
			return err // asking again would be answered the same
		case within.Err() == nil:
			last = err.Error()
		}
		if sleep(within, every) == nil {
			continue
		}
		if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
			return ctx.Err()
		}
		return fmt.Errorf("expected: %s; still: %s", what, last)
	}
}

// indented shifts what a command prints under its command line.
func indented(w io.Writer) io.Writer { return &shifted{w: w, fresh: true} }

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
