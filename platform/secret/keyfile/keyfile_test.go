package keyfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/secret/keyfile"
	"github.com/gpuaas/gpuaas/platform/secret/secrettest"
)

func create(t *testing.T) (path string, f *keyfile.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "deep", "kek.json")
	if err := keyfile.Create(path, clock.Clock{}); err != nil {
		t.Fatal(err)
	}
	f, err := keyfile.Open(path, clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	return path, f
}

func TestFileIsAWrapper(t *testing.T) {
	t.Parallel()
	_, f := create(t)
	secrettest.Wrapper(t, f)
}

// A file that others can read or that is damaged is rejected, and an existing one is never replaced.
func TestBadFilesAreRejected(t *testing.T) {
	t.Parallel()
	path, _ := create(t)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := keyfile.Create(path, clock.Clock{}); errs.CodeOf(err) != errs.AlreadyExists {
		t.Errorf("created again: %v", err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"others read it":      {string(good), 0o644},
		"the group writes it": {string(good), 0o620},
		"empty":               {"", 0o600},
		"no keys":             {`{"version":1,"keys":[]}`, 0o600},
		"of another version":  {`{"version":2,"keys":[{"id":"a","key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}]}`, 0o600},
		"a short key":         {`{"version":1,"keys":[{"id":"a","key":"AAAA"}]}`, 0o600},
		"more fields":         {`{"version":1,"also":1,"keys":[{"id":"a","key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}]}`, 0o600},
	} {
		other := filepath.Join(t.TempDir(), "kek.json")
		if err := os.WriteFile(other, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(other, c.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := keyfile.Open(other, clock.Clock{}); errs.CodeOf(err) != errs.ValidationError {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := keyfile.Open(filepath.Join(t.TempDir(), "none"), clock.Clock{}); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("no file: %v", err)
	}
}

// A server reads the file that an operator has copied, and its keys stay if the copy is damaged.
func TestAServerReadsANewFile(t *testing.T) {
	t.Parallel()
	path, first := create(t)
	running, err := keyfile.Open(path, clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	at := envelope.Place{Table: "t", Column: "c", Row: "r"}
	if err := first.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := first.Begin(t.Context()); errs.CodeOf(err) != errs.Conflict {
		t.Errorf("a second rotation in the first: %v", err)
	}
	sealed, err := first.Seal(t.Context(), []byte("x"), at)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := running.Open(t.Context(), sealed, at); envelope.ReasonOf(err) != envelope.ReasonKey {
		t.Errorf("before it was read: %v", err)
	}
	if err := running.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := running.Refresh(t.Context()); err == nil {
		t.Error("a damaged file was read")
	}
	if _, err := running.Open(t.Context(), sealed, at); err != nil {
		t.Errorf("after it was read: %v", err)
	}
}
