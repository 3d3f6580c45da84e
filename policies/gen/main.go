// Command gen writes policies/keys.gen.go and policies/roles.gen.go from the CUE files in the same
// folder. The server contains only the tables and no CUE evaluator.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	folder := "."
	if len(os.Args) > 1 {
		folder = os.Args[1]
	}
	if err := run(folder); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(folder string) error {
	made, err := Generate(os.DirFS(folder))
	if err != nil {
		return err
	}
	for name, src := range made {
		if err := os.WriteFile(filepath.Join(folder, name), src, 0o644); err != nil { //nolint:gosec // a source file
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}
