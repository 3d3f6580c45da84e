package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gpuaas/gpuaas/internal/durable"
)

func TestWriteReplacesAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for _, want := range []string{"one", "two"} {
		if err := durable.Write(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("got %q, %v", got, err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left %v, %v", entries, err)
	}
}

func TestCreateHasOneWinner(t *testing.T) {
	t.Parallel()

	path := filepath.Join(t.TempDir(), "file")
	var won, lost atomic.Int32
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			switch err := durable.Create(path, []byte(strconv.Itoa(i)), 0o600); {
			case err == nil:
				won.Add(1)
			case errors.Is(err, fs.ErrExist):
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || lost.Load() != 49 {
		t.Errorf("%d won, %d lost", won.Load(), lost.Load())
	}
}
