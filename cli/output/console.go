// Package output is the console of one run of the command line: flags, tables, formats, prompts,
// failures and exit codes.
package output

import (
	"context"
	"io"
	"os"

	"github.com/google/uuid"
	"golang.org/x/term"

	"github.com/gpuaas/gpuaas/internal/clock"
)

// Console is shared by all commands: streams, environment, clock, and the global flags.
type Console struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string
	Clock    clock.Clock
	// Terminal reports that In is a terminal. Colours enables escape codes on Out.
	Terminal, Colours bool
	// Correlation is one id for all requests of this run, so that it can be named
	// even when no answer came.
	Correlation string

	Profile, Url, Project, Output string
	NoHeaders, NoInput            bool

	// Started is set after flags and arguments were parsed. An error before that is a usage error,
	// whatever Cobra returns.
	Started bool

	// SignInAgain replaces the sign-in of the profile by a new one.
	SignInAgain func(ctx context.Context) error

	// Execute runs another command line in this process, as the tour does.
	Execute func(ctx context.Context, a *Console, args []string) int
}

func NewConsole() *Console {
	return &Console{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv,
		Terminal:    term.IsTerminal(int(os.Stdin.Fd())),
		Colours:     term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
		Correlation: uuid.Must(uuid.NewV7()).String(),
	}
}

// CanPrompt reports whether a user can answer a prompt.
func (a *Console) CanPrompt() bool {
	return a.Terminal && !a.NoInput && a.Env("GPUAAS_NO_INPUT") == "" && a.Env("CI") == ""
}
