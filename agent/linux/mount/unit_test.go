package mount

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent/linux/hostos"
	"github.com/gpuaas/gpuaas/protocol"
)

// The name of a folder of stored objects is any text. It is one argument of rclone, and nothing of it is a variable or
// specifier of systemd.
func TestUnitOfAnyFolder(t *testing.T) {
	t.Parallel()
	text := Unit(Options{Name: "u200007", UID: 200007, Number: 1, Bucket: "b", Mount: protocol.Mount{At: "runs/data", Path: `a "b" $HOME %n c'd -x`, ReadOnly: true}, CacheMiB: 256})
	for _, want := range []string{
		` "s:b/a \"b\" $$HOME %%n c'd -x/" "/var/lib/gpuaas/homes/u200007/data/home/runs/data"` + "\n", ` "--read-only" `, ` "--vfs-cache-max-size=256M" `,
		"\nUser=200007\n", "\nSlice=gpuaas-mounts-200007.slice\n", "\nDevicePolicy=closed\nDeviceAllow=/dev/fuse rw\n", "\nAmbientCapabilities=CAP_WAKE_ALARM\n", "--config=/run/gpuaas/mounts/200007/1.conf ",
		"\nExecStartPre=/usr/bin/mkdir -p -m 0700 -- \"/var/lib/gpuaas/homes/u200007/data/home/runs/data\"\n", "\nRestartSec=10\n",
		"\nExecStartPost=/usr/bin/grep -qF \" /var/lib/gpuaas/homes/u200007/data/home/runs/data \" /proc/self/mountinfo\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	// Each of them makes a mount namespace, or implies NoNewPrivileges=: the mount would not be visible, or not be made.
	for line := range strings.Lines(text) {
		for _, bad := range []string{"Private", "Protect", "ReadOnlyPaths", "SystemCall", "RestrictAddress", "NoNewPrivileges", "MemoryDeny", "LockPersonality"} {
			if strings.HasPrefix(line, bad) {
				t.Error(line)
			}
		}
	}
}

func TestEndpoints(t *testing.T) {
	t.Parallel()
	for endpoint, ok := range map[string]bool{
		"https://s3.example.org": true, "http://10.0.0.1:9000": true, "https://[fd00::1]:443": true, "http://127.0.0.1:9": true,
		"https://a b": false, "https://a\nsecret = x": false, "ftp://a": false, "https://u@a": false, "https://a/x": false, "https://a:b:c": false,
	} {
		if err := checkEndpoint(protocol.Storage{Endpoint: endpoint}); (err == nil) != ok {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	for out, want := range map[string]bool{
		"rclone v1.60.1-DEV\n- os/version: debian 12": true, "rclone v1.59.2": false, "rclone v1.9.0": false, "rclone v2.0.0": true, "rclone v1.71.0\n": true, "": false, "usage: rclone v1.60": false,
	} {
		if version, ok := usable(out); ok != want || version == "" {
			t.Errorf("%q: %q, %v", out, version, ok)
		}
	}
}

// A tenant owns the cache and puts anything there. Nothing of it stops the search, or leads it out of the home.
func TestFilesThatAreNotStored(t *testing.T) {
	t.Parallel()
	home, outside := t.TempDir(), t.TempDir()
	write := func(path string, value any) {
		text, err := json.Marshal(value)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o700)
		}
		if err == nil {
			err = os.WriteFile(path, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	count := func() int {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		n, err := NotStored(ctx, home, "cache/0")
		if err != nil {
			t.Error(err)
		}
		return n
	}
	if n := count(); n != 0 {
		t.Errorf("%d in a home without a cache", n)
	}
	type meta struct{ Dirty bool }
	top := filepath.Join(home, "cache/0/vfsMeta")
	write(filepath.Join(top, "s/b/waits"), meta{true})
	write(filepath.Join(top, "s/b/c/waits too"), meta{true})
	write(filepath.Join(top, "s/b/stored"), meta{false})
	write(filepath.Join(top, "s/b/other"), []string{"x"})
	write(filepath.Join(outside, "f"), meta{true})
	for _, err := range []error{
		os.Symlink(outside, filepath.Join(top, "out")), os.Symlink(filepath.Join(outside, "f"), filepath.Join(top, "f")), os.Symlink(top, filepath.Join(top, "loop")),
		syscall.Mkfifo(filepath.Join(top, "pipe"), 0o600), os.WriteFile(filepath.Join(top, "empty"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := count(); n != 2 {
		t.Errorf("%d files are not stored, want 2", n)
	}
	deep := top
	for range deepest + 2 {
		deep = filepath.Join(deep, "d")
	}
	write(filepath.Join(deep, "f"), meta{true})
	if _, err := NotStored(t.Context(), home, "cache/0"); err == nil {
		t.Error("a cache without an end has a count")
	}
	if err := os.RemoveAll(filepath.Join(home, "cache")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(home, "cache")); err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(outside, "0/vfsMeta/f"), meta{true})
	if n, err := NotStored(t.Context(), home, "cache/0"); err == nil || n != 0 {
		t.Errorf("a link leads out of the home: %d, %v", n, err)
	}
}

// The agent may end between the removal of the mounts and the record of it. The next try counts the same files.
func TestFilesThatAreNotStoredAreCountedAgain(t *testing.T) {
	t.Parallel()
	m := &Mounts{OS: &hostos.OS{Root: t.TempDir(), Run: func(context.Context, string, []byte, ...string) ([]byte, error) { return nil, nil }}}
	write := func(path, text string) {
		if err := os.MkdirAll(filepath.Dir(m.Path(path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(m.Path(path), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("/proc/self/mountinfo", "")
	write(unitFile(unitName(200007, 1)), "") // that of number 0 was removed before
	write(cacheDir("u200007", 0)+"/vfsMeta/a", `{"Dirty":true}`)
	write(cacheDir("u200007", 1)+"/vfsMeta/b", `{"Dirty":true}`)
	for _, try := range []string{"with a unit", "without units"} {
		if lost, err := m.Remove(t.Context(), "u200007", 200007); err != nil || lost != 2 {
			t.Errorf("%s: %d, %v, want 2", try, lost, err)
		}
		if units, err := m.units(200007); err != nil || len(units) > 0 {
			t.Errorf("%s: %q, %v", try, units, err)
		}
	}
}

// A tenant can change the path of a mount while it is unmounted.
func TestFoldersAreOpenedWithoutLinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a/b"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/", filepath.Join(dir, "a/link")); err != nil {
		t.Fatal(err)
	}
	if fd, err := openFolder(filepath.Join(dir, "a/b")); err != nil {
		t.Error(err)
	} else if err := syscall.Close(fd); err != nil {
		t.Error(err)
	}
	for _, path := range []string{"a/link", "a/link/proc", "a/missing"} {
		if _, err := openFolder(filepath.Join(dir, path)); err == nil {
			t.Errorf("%s is opened", path)
		}
	}
}

func TestLastLinesOfRclone(t *testing.T) {
	t.Parallel()
	if got := lastLines("one; two\nthree\x1b[31m\n"); got != "one  two. three [31m" {
		t.Errorf("%q", got)
	}
	if got := lastLines(strings.Repeat("é", 400)); len(got) > 300 || !strings.HasSuffix(got, "é") {
		t.Errorf("%q", got)
	}
}
