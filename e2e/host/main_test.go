//go:build e2e

// Package host tests a node in booted Debian containers: real systemd, real sshd, the real agent, and a
// real server outside.
package host

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gpuaas/gpuaas/e2e/rig"
)

// bins is the folder of the tested binaries. It is set once, before the first test.
var bins string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "gpuaas-host-")
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
	return m.Run()
}

// building is locked while a test builds a program. The others wait, because a link needs ten seconds of both cores.
var building sync.Mutex

// binary builds a program of this module once. If GPUAAS_E2E_BIN is set, that folder already
// contains the programs.
func binary(t testing.TB, name string) string {
	t.Helper()
	if dir := os.Getenv("GPUAAS_E2E_BIN"); dir != "" {
		return filepath.Join(dir, name)
	}
	building.Lock()
	defer building.Unlock()
	path := filepath.Join(bins, name)
	if _, err := os.Stat(path); err != nil {
		must(t, rig.Build(path, "github.com/gpuaas/gpuaas/cmd/"+name))
	}
	return path
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
