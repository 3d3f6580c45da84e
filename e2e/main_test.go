//go:build e2e

// Package e2e kills whole installations, cuts their network and gives them wrong data: the real
// binaries with a real PostgreSQL and real agents behind mutual TLS. Package check then validates
// the state that they leave.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// bins is the folder of the tested binaries. It is set once, before the first test.
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
	// PostgreSQL does not run as root. Its user needs access to the folders below this one.
	if err := os.Chmod(dir, 0o711); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	build := exec.Command("go", "build", "-tags", "nomsgpack,failpoint", "-ldflags=-s -w", "-o", dir+string(filepath.Separator),
		"github.com/gpuaas/gpuaas/cmd/gpuaas", "github.com/gpuaas/gpuaas/cmd/gpuaas-agent", "github.com/gpuaas/gpuaas/e2e/natsd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the binaries under test:", err)
		return 1
	}
	return m.Run()
}
