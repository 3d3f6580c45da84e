//go:build e2e

// Package e2e kills, cuts off and misleads whole installations: the real binaries
// over a real PostgreSQL, with real agents behind mutual TLS. What is judged is
// what they leave behind, by package check.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// bins is where the binaries under test lie. Set once, before any test.
var bins string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gpuaas-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	bins = dir
	// PostgreSQL refuses root and runs as another user, who has to get through.
	if err := os.Chmod(dir, 0o711); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	build := exec.Command("go", "build", "-tags", "nomsgpack,failpoint", "-o", dir+string(filepath.Separator),
		"github.com/gpuaas/gpuaas/cmd/gpuaas", "github.com/gpuaas/gpuaas/cmd/gpuaas-agent", "github.com/gpuaas/gpuaas/e2e/natsd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the binaries under test:", err)
		return 1
	}
	return m.Run()
}
