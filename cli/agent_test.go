package cli

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/product/agentrelease"
)

// foreign writes a binary for another platform, which cannot be executed to read its version.
func foreign(t *testing.T, path string, body string) {
	t.Helper()
	elf := append([]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, make([]byte, 9)...)
	for _, v := range []any{uint16(2), uint16(183), uint32(1), uint64(0), uint64(0), uint64(0), uint32(0), uint16(64), uint16(56), uint16(0), uint16(64), uint16(0), uint16(0)} {
		elf, _ = binary.Append(elf, binary.LittleEndian, v)
	}
	if err := os.WriteFile(path, append(elf, body...), 0o600); err != nil {
		t.Fatal(err)
	}
}

const anyFailure = -1

// A build is published once under its version, with the server's key, and is listed. Another folder
// gets no new key.
func TestAgentPublish(t *testing.T) {
	t.Parallel()
	url, state, empty := pgtest.URL(t), t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(state, agentrelease.KeysDir), 0o700); err != nil {
		t.Fatal(err)
	}
	one, other := filepath.Join(state, "one"), filepath.Join(state, "other")
	foreign(t, one, "one")
	foreign(t, other, "other")
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no version", []string{"publish", one}, output.ExitUsage, "--version"},
		{"no keys there", []string{"publish", one, "--version", "v1.1.0", "--state-dir", empty}, anyFailure, "contains no release keys"},
		{"no time", []string{"publish", one, "--version", "v1.1.0", "--expires", "soon"}, output.ExitUsage, "90d"},
		{"below its minimum", []string{"publish", one, "--version", "v1.1.0", "--minimum", "v1.2.0"}, anyFailure, "cannot be published"},
		{"published", []string{"publish", one, "--version", "v1.1.0", "--minimum", "v1.0.0", "--expires", "30d"}, output.ExitOK, "v1.1.0"},
		{"published again", []string{"publish", one, "--version", "v1.1.0"}, output.ExitOK, "linux/arm64"},
		{"another under its name", []string{"publish", other, "--version", "v1.1.0"}, anyFailure, "is another build"},
		{"listed", []string{"list"}, output.ExitOK, "v1.1.0"},
		{"nothing was lost", []string{"retry", "v1.1.0"}, anyFailure, "no node has gone back"},
	} {
		args := append([]string{"agent"}, c.args...)
		if !strings.Contains(strings.Join(args, " "), "--state-dir") {
			args = append(args, "--state-dir", state)
		}
		code, out, said := runs(t, url, args...)
		if code != c.code && (c.code != anyFailure || code == output.ExitOK) || !strings.Contains(out+said, c.says) {
			t.Errorf("%s: exit %d\n%s%s", c.name, code, out, said)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(empty, "*")); len(left) > 0 {
		t.Errorf("made %v", left)
	}
}
