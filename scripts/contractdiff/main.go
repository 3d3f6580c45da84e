// Command contractdiff lists what a contract removes for the clients of an older one, and fails unless the contract
// allows it: contractdiff OLD NEW.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpuaas/gpuaas/api/openapi/breaking"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: contractdiff OLD NEW")
		os.Exit(2)
	}
	if err := run(os.Stdout, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "contractdiff:", err)
		os.Exit(1)
	}
}

var errBroken = errors.New("clients of the released contract would break: " +
	"leave the old form with the new one, or write `x-breaking: \"reason\"` on the operation or schema (by operationId at the root where it is gone)")

func run(out io.Writer, old, now string) error {
	then, err := read(old)
	if err != nil {
		return err
	}
	doc, err := read(now)
	if err != nil {
		return err
	}
	changes := breaking.Between(then, doc)
	for _, c := range changes {
		fmt.Fprintf(out, "%s: %s\n", now, c)
	}
	if breaking.Broken(changes) {
		return errBroken
	}
	return nil
}

func read(path string) (*openapi3.T, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the paths are what the command is about
	if err != nil {
		return nil, err
	}
	doc, err := breaking.Read(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return doc, nil
}
