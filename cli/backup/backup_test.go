package backup

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// run runs a command line below "gpuaas backup" with an environment.
func run(t *testing.T, env map[string]string, args ...string) (string, error) {
	t.Helper()
	return runIn(t.Context(), env, args...)
}

func runIn(ctx context.Context, env map[string]string, args ...string) (string, error) {
	var out bytes.Buffer
	a := &output.Console{In: strings.NewReader(""), Out: &out, Err: &out, Env: func(name string) string { return env[name] }}
	c := NewBackup(a)
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetArgs(args)
	err := c.ExecuteContext(ctx)
	return out.String(), err
}

func keygen(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys")
	if _, err := run(t, nil, "keygen", dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestKeygenReplacesNothing(t *testing.T) {
	t.Parallel()
	dir := keygen(t)
	text, err := os.ReadFile(filepath.Join(dir, operatorName))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, nil, "keygen", dir); errs.CodeOf(err) != errs.AlreadyExists {
		t.Errorf("a second time: %v", err)
	}
	if now, _ := os.ReadFile(filepath.Join(dir, operatorName)); !bytes.Equal(now, text) {
		t.Error("the key file has changed")
	}
	for _, name := range []string{serverName, operatorName} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestAnEmptyTargetHasNoBackups(t *testing.T) {
	t.Parallel()
	dir := keygen(t)
	env := map[string]string{targetVariable: "file://" + t.TempDir(), identityVariable: filepath.Join(dir, operatorName)}
	out, err := run(t, env, "list")
	if err != nil || !strings.Contains(out, "No results") {
		t.Errorf("%q, %v", out, err)
	}
	env["GPUAAS_OUTPUT"] = "json"
	if out, err = run(t, env, "list"); err != nil || !strings.Contains(out, `"items": []`) {
		t.Errorf("%q, %v", out, err)
	}
}

func TestInputs(t *testing.T) {
	t.Parallel()
	dir := keygen(t)
	server, operator, target := filepath.Join(dir, serverName), filepath.Join(dir, operatorName), "file://"+t.TempDir()
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no target":          {[]string{"list", "--key", server}, "is not an address"},
		"relative target":    {[]string{"list", "--key", server, "--target", "file://backups"}, "is not an address"},
		"unknown target":     {[]string{"list", "--key", server, "--target", "ftp://server/x"}, "is not an address"},
		"missing folder":     {[]string{"list", "--key", server, "--target", target + "/missing"}, "cannot be opened"},
		"no key":             {[]string{"list", "--target", target}, "no key file is named"},
		"key of the other":   {[]string{"list", "--target", target, "--key", operator}, "is not a key file"},
		"identity of server": {[]string{"verify", "x", "--target", target, "--identity", server}, "is not a key file"},
		"no such backup":     {[]string{"verify", "x", "--target", target, "--identity", operator}, "there is no backup x"},
		"a path":             {[]string{"verify", "../x", "--target", target, "--identity", operator}, "is not the id of a backup"},
		"no time":            {[]string{"restore", "x", "--to", "y", "--at", "yesterday", "--target", target, "--identity", operator}, "is not a time"},
		"the future":         {[]string{"restore", "x", "--to", "y", "--at", "9999-01-01T00:00:00Z", "--target", target, "--identity", operator}, "in the future"},
		"no position":        {[]string{"restore", "x", "--to", "y", "--lsn", "5", "--target", target, "--identity", operator}, "is not a position"},
		"two points":         {[]string{"restore", "x", "--to", "y", "--lsn", "0/5", "--at", "2026-01-01T00:00:00Z", "--target", target, "--identity", operator}, "[at lsn]"},
		"no folder":          {[]string{"restore", "x", "--target", target, "--identity", operator}, `"to" not set`},
		"not in pg_wal":      {[]string{"wal-push", "000000010000000000000001", "--target", target, "--key", server}, "not a data directory"},
		"fetch elsewhere":    {[]string{"wal-fetch", "000000010000000000000001", "x", "--target", target, "--identity", operator}, "not a data directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if out, err := run(t, nil, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q, %v, want %q", out, err, c.want)
			}
		})
	}
}
