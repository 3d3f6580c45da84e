package main

import (
	"bufio"
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
func (a *app) confirm(question, declined string) error {
	_, _ = fmt.Fprintf(a.Err, "%s [y/N] ", question)
	switch strings.ToLower(a.line()) {
	case "y", "yes":
		return nil
	}
	return &failure{Message: declined, Code: codeDeclined, Try: "answer y, or --yes", Exit: exitFailure}
}

// confirmName asks for the name of what is about to end: a yes is typed too fast.
func (a *app) confirmName(name, what, declined string) error {
	_, _ = fmt.Fprintf(a.Err, "%s\nType its name to go on: ", what)
	if a.line() == name {
		return nil
	}
	return &failure{Message: declined, Code: codeDeclined, Try: "type " + name + ", or --yes", Exit: exitFailure}
}

// line reads an answer; the end of input is an empty one.
func (a *app) line() string {
	text, _ := bufio.NewReader(a.In).ReadString('\n')
	return strings.TrimSpace(text)
}
