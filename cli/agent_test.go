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

// A pipeline signs a build with its own key, and an installation's server publishes it once under its version. Without the
// trusted key nothing is published.
func TestAgentPublish(t *testing.T) {
	t.Parallel()
	url, dir := pgtest.URL(t), t.TempDir()
	keys, others, state := filepath.Join(dir, "keys"), filepath.Join(dir, "others"), filepath.Join(dir, "state")
	one, other := filepath.Join(dir, "one"), filepath.Join(dir, "other")
	foreign(t, one, "one")
	foreign(t, other, "other")
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no keys there", []string{"sign", one, "--version", "v1.1.0", "--keys-dir", keys}, anyFailure, "contains no release keys"},
		{"the first key", []string{"keys", "begin", "--keys-dir", keys}, output.ExitOK, "0001"},
		{"another pipeline", []string{"keys", "begin", "--keys-dir", others}, output.ExitOK, "0001"},
		{"no version", []string{"sign", one, "--keys-dir", keys}, output.ExitUsage, "--version"},
		{"no time", []string{"sign", one, "--keys-dir", keys, "--version", "v1.1.0", "--expires", "soon"}, output.ExitUsage, "90d"},
		{"no minimum", []string{"sign", one, "--keys-dir", keys, "--version", "v1.1.0"}, anyFailure, "needs a minimum"},
		{"below its minimum", []string{"sign", one, "--keys-dir", keys, "--version", "v1.1.0", "--minimum", "v1.2.0"}, anyFailure, "cannot be published"},
		{"not signed", []string{"publish", one}, anyFailure, "no signed release"},
		{"signed", []string{"sign", one, "--keys-dir", keys, "--version", "v1.1.0", "--minimum", "v1.0.0", "--expires", "30d"}, output.ExitOK, "v1.1.0"},
		{"no trusted key", []string{"publish", one}, anyFailure, "trusts no release key"},
		{"trusted", []string{"trust", filepath.Join(keys, "release-keys.json")}, output.ExitOK, "0001"},
		{"keys of another pipeline", []string{"trust", filepath.Join(others, "release-keys.json")}, anyFailure, "no trusted release key"},
		{"no statement", []string{"trust", one}, anyFailure, "no signed statement"},
		{"published", []string{"publish", one}, output.ExitOK, "v1.1.0"},
		{"published again", []string{"publish", one}, output.ExitOK, "linux/arm64"},
		{"of another file", []string{"publish", other, "--release", one + ".release"}, anyFailure, "another build"},
		{"signed under its name", []string{"sign", other, "--keys-dir", keys, "--version", "v1.1.0", "--minimum", "v1.0.0"}, output.ExitOK, "v1.1.0"},
		{"another under its name", []string{"publish", other}, anyFailure, "is another build"},
		{"signed elsewhere", []string{"sign", other, "--keys-dir", others, "--version", "v1.2.0", "--minimum", "v1.0.0"}, output.ExitOK, "v1.2.0"},
		{"of another pipeline", []string{"publish", other}, anyFailure, "no trusted release key has signed"},
		{"the next key", []string{"keys", "begin", "--keys-dir", keys}, output.ExitOK, "0002"},
		{"trusted", []string{"trust", filepath.Join(keys, "release-keys.json")}, output.ExitOK, "0002"},
		{"the old key ends", []string{"keys", "finish", "--keys-dir", keys}, output.ExitOK, "0002"},
		{"trusted", []string{"trust", filepath.Join(keys, "release-keys.json")}, output.ExitOK, "0002"},
		{"of the ended key", []string{"publish", one}, anyFailure, "no trusted release key has signed"},
		{"listed", []string{"list"}, output.ExitOK, "v1.1.0"},
		{"nothing was lost", []string{"retry", "v1.1.0"}, anyFailure, "no node has gone back"},
	} {
		args := append([]string{"agent"}, c.args...)
		if c.args[0] == "publish" || c.args[0] == "list" || c.args[0] == "retry" {
			args = append(args, "--state-dir", state)
		}
		code, out, said := runs(t, url, args...)
		if code != c.code && (c.code != anyFailure || code == output.ExitOK) || !strings.Contains(out+said, c.says) {
			t.Errorf("%s: exit %d\n%s%s", c.name, code, out, said)
		}
	}
	// INV-76: nothing but the folder of a pipeline contains a release key.
	if left, _ := filepath.Glob(filepath.Join(state, "*")); len(left) != 1 || filepath.Base(left[0]) != agentrelease.BuildsDir {
		t.Errorf("the state directory contains %v", left)
	}
}
