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
	"strconv"
	"syscall"
	"testing"
	"time"
)

// TestKilledUploadContinues kills the client and the server in turn while a file of 256 MiB is uploaded, or of
// GPUAAS_TEST_UPLOAD_GIB GiB. Each client sends only the parts that the server lacks, and the file has the SHA-256 of the
// original. The memory of a client does not depend on the size.
func TestKilledUploadContinues(t *testing.T) {
	t.Parallel()
	size := int64(256 << 20)
	if gib, err := strconv.ParseInt(os.Getenv("GPUAAS_TEST_UPLOAD_GIB"), 10, 64); err == nil {
		size = gib << 30
	}
	h := newInstallation(t)
	h.start()
	if status, err := h.callAs("default-admin", "PUT", "/api/v1/admin/policies/storage.max_object_bytes", "", map[string]any{"scope": "platform", "value": max(size, 5<<30)}, &struct{}{}); err != nil {
		t.Fatalf("%d %v", status, err)
	}
	name, sum := randomFile(t, h.path("large"), size)
	arrived := 0
	for round := range 10 {
		cmd := exec.Command(filepath.Join(bins, "gpuaas"), "storage", "cp", "--parallel", "2", name, ":data/large")
		cmd.Env = h.own()
		done := launch(t, cmd)
		// A client reads the whole file for its SHA-256 before it continues an upload.
		if !until(t, patience+time.Duration(size>>30)*10*time.Second, "parts arrive", func() error {
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
		t.Logf("round %d: %d parts have arrived, and the client had %d MiB", round, arrived, memoryOf(cmd))
	}
	last := exec.Command(filepath.Join(bins, "gpuaas"), "storage", "cp", name, ":data/large")
	last.Env = h.own()
	if out, err := last.CombinedOutput(); err != nil {
		t.Fatalf("the last command: %v %s", err, out)
	}
	const enough = 200
	if mib := memoryOf(last); mib > enough {
		t.Errorf("the last command had %d MiB, want at most %d", mib, enough)
	} else {
		t.Logf("the last command had %d MiB", mib)
	}
	if r := h.cli("storage", "ls", "data/large", "-o", "jsonpath={.items[0].sha256}"); r.out != sum && r.out != sum+"\n" {
		t.Errorf("the file has the SHA-256 %q, want %s: %s", r.out, sum, r.err)
	}
	must(t, os.Remove(name)) // three large files may need more space than there is
	back := exec.Command(filepath.Join(bins, "gpuaas"), "storage", "cp", ":data/large", h.path("back"))
	back.Env = h.own()
	if out, err := back.CombinedOutput(); err != nil {
		t.Fatalf("downloading: %v %s", err, out)
	}
	if got := sumOfFile(t, h.path("back")); got != sum {
		t.Errorf("the download has the SHA-256 %s, want %s", got, sum)
	}
}

// memoryOf returns the most memory that an ended command has had, in MiB.
func memoryOf(cmd *exec.Cmd) int64 {
	return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss >> 10
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
