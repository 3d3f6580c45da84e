// Command gen writes desired/validate/schema.gen.go: a Go function for each kind,
// made from the CUE of cue/schema. The functions accept what the definitions
// accept and fill in the same defaults; a refusal they leave to CUE, which has the
// words for it.
//
// It understands what the schema uses and fails on anything else, so that a
// definition never means one thing to CUE and another to the functions.
package main

import (
	"fmt"
	"os"
)

func main() {
	name := "schema.gen.go"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	if err := run(name); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(name string) error {
	src, err := Generate()
	if err != nil {
		return err
	}
	if err := os.WriteFile(name, src, 0o644); err != nil { //nolint:gosec // a source file
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
