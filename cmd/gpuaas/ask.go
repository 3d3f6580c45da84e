package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"
)

// mustAsk refuses at once what would have to ask later and cannot: before
// anything was looked up, and never by taking silence for a yes.
func (a *app) mustAsk(yes bool, what string) error {
	if yes || a.canAsk() {
		return nil
	}
	f := usage("%s asks first, and nobody can answer: no terminal, CI, or GPUAAS_NO_INPUT", what)
	f.Try = "the same command with --yes"
	return f
}

// confirm asks for a yes.
func (a *app) confirm(ctx context.Context, question, declined string) error {
	_, _ = fmt.Fprintf(a.Err, "%s [y/N] ", question)
	said, err := a.line(ctx)
	if err != nil {
		return err
	}
	switch strings.ToLower(said) {
	case "y", "yes":
		return nil
	}
	return &failure{Message: declined, Code: codeDeclined, Try: "answer y, or --yes", Exit: exitFailure}
}

// confirmName asks for the name of what is about to end: a yes is typed too fast.
func (a *app) confirmName(ctx context.Context, name, what, declined string) error {
	_, _ = fmt.Fprintf(a.Err, "%s\nType its name to go on: ", what)
	said, err := a.line(ctx)
	if err != nil || said == name {
		return err
	}
	return &failure{Message: declined, Code: codeDeclined, Try: "type " + name + ", or --yes", Exit: exitFailure}
}

// line reads an answer; the end of input is an empty one. Nothing interrupts a
// read of a terminal, so Ctrl-C leaves it behind; the process ends right after.
func (a *app) line(ctx context.Context) (string, error) {
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
