//go:build e2e

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestKilledUploadContinues kills the client and the server in turn while a file of 256 MiB is uploaded. Each client sends
// only the parts that the server lacks, and the file has the SHA-256 of the original.
func TestKilledUploadContinues(t *testing.T) {
	t.Parallel()
	const parts, size = 16, 256 << 20
	h := newInstallation(t)
	h.start()
	name, sum := randomFile(t, h.path("large"), size)
	arrived := 0
	for round := range 6 {
		cmd := exec.Command(filepath.Join(bins, "gpuaas"), "storage", "cp", "--parallel", "2", name, ":data/large")
		cmd.Env = h.own()
		done := launch(t, cmd)
		if !until(t, patience, "parts arrive", func() error {
			if n := h.parts(); n > arrived || isClosed(done) {
				return nil
			}
			return fmt.Errorf("%d parts have arrived", arrived)
		}) {
			t.FailNow()
		}
		if isClosed(done) && cmd.ProcessState.Success() {
			break
		}
		if round%2 == 1 {
			h.kill()
			<-done // the client has no server
			h.start()
		} else {
			_ = syscall.Kill(cmd.Process.Pid, syscall.SIGKILL)
			<-done
		}
		now := h.parts()
		if now < arrived {
			t.Errorf("round %d: %d parts are left of %d", round, now, arrived)
		}
		arrived = now
		t.Logf("round %d: %d of %d parts have arrived", round, arrived, parts)
	}
	if r := h.cli("storage", "cp", name, ":data/large"); r.code != 0 {
		t.Fatalf("the last command: %d %s", r.code, r.err)
	}
	if r := h.cli("storage", "ls", "data/large", "-o", "jsonpath={.items[0].sha256}"); r.out != sum && r.out != sum+"\n" {
		t.Errorf("the file has the SHA-256 %q, want %s: %s", r.out, sum, r.err)
	}
	if r := h.cli("storage", "cp", ":data/large", h.path("back")); r.code != 0 {
		t.Fatalf("downloading: %d %s", r.code, r.err)
	}
	if back := sumOfFile(t, h.path("back")); back != sum {
		t.Errorf("the download has the SHA-256 %s, want %s", back, sum)
	}
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// parts returns the number of the parts that have arrived of all uploads.
func (h *installation) parts() (n int) {
	h.t.Helper()
	db, err := h.sql(context.Background())
	if err != nil {
		return 0
	}
	defer db.Close(context.Background())
	err = db.QueryRow(context.Background(), `SELECT count(*) FROM storage_parts WHERE stored_at IS NOT NULL`).Scan(&n)
	must(h.t, err)
	return n
}

func randomFile(t *testing.T, name string, size int64) (path, sum string) {
	t.Helper()
	f, err := os.Create(name)
	must(t, err)
	h := sha256.New()
	_, err = io.CopyN(io.MultiWriter(f, h), rand.NewChaCha8([32]byte{1}), size)
	must(t, errors.Join(err, f.Close()))
	return name, hex.EncodeToString(h.Sum(nil))
}

func sumOfFile(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	must(t, err)
	return hex.EncodeToString(h.Sum(nil))
}
