package output

import (
	"bufio"
	"context"
	"fmt"
	"strings"
)

// RequireConfirmation returns an error before the first request if the command needs a confirmation
// and cannot prompt for it. A missing answer never counts as a yes.
func (a *Console) RequireConfirmation(yes bool, what string) error {
	if yes || a.CanPrompt() {
		return nil
	}
	f := UsageError("%s needs a confirmation, but a prompt is not possible: no terminal, CI, or GPUAAS_NO_INPUT", what)
	f.Try = "the same command with --yes"
	return f
}

// Confirm prompts for a yes.
func (a *Console) Confirm(ctx context.Context, question, declined string) error {
	_, _ = fmt.Fprintf(a.Err, "%s [y/N] ", question)
	said, err := a.line(ctx)
	if err != nil {
		return err
	}
	switch strings.ToLower(said) {
	case "y", "yes":
		return nil
	}
	return &CommandError{Message: declined, Code: CodeDeclined, Try: "confirm with y, or use --yes", Exit: ExitFailure}
}

// ConfirmName prompts for the name of the resource that is about to end: a yes is typed too fast.
func (a *Console) ConfirmName(ctx context.Context, name, what, declined string) error {
	_, _ = fmt.Fprintf(a.Err, "%s\nType its name to continue: ", what)
	said, err := a.line(ctx)
	if err != nil || said == name {
		return err
	}
	return &CommandError{Message: declined, Code: CodeDeclined, Try: "type " + name + ", or --yes", Exit: ExitFailure}
}

// line reads an answer; the end of input is an empty one. Nothing interrupts a
// read of a terminal, so Ctrl-C leaves it behind; the process ends right after.
func (a *Console) line(ctx context.Context) (string, error) {
	said := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(a.In).ReadString('\n')
		said <- strings.TrimSpace(text)
	}()
	select {
	case text := <-said:
		return text, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
