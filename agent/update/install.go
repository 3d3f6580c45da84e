package update

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaas/protocol"
)

// install copies the downloaded build into the unused folder and verifies it there. The network process
// can change its own file at any time, so only the verified copy is started.
func (u *Updater) install(ctx context.Context, r protocol.Release, slot string) error {
	dir := filepath.Join(u.Lib, slot)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // programs that everybody may read
		return fmt.Errorf("making %s: %w", dir, err)
	}
	// The umask of the helper would deny the network process, which is not root, access to its own
	// program.
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("opening %s: %w", dir, err)
	}
	temp := filepath.Join(dir, "."+Binary)
	if err := u.copyIn(r, temp); err != nil {
		return errors.Join(err, remove(temp))
	}
	if err := u.examine(ctx, r, temp); err != nil {
		return errors.Join(err, remove(temp))
	}
	if err := os.Rename(temp, u.binary(slot)); err != nil {
		return errors.Join(fmt.Errorf("installing %s: %w", r.Version, err), remove(temp))
	}
	return syncDir(dir)
}

// copyIn copies what was staged, hashing what it copies.
func (u *Updater) copyIn(r protocol.Release, to string) error {
	// The open follows no link and does not block, because the network process owns the folder.
	from, err := os.OpenFile(filepath.Join(u.Staging, r.Digest), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return protocol.Reject(protocol.StepFailed, "the build is not staged: %v", err)
	}
	defer func() { _ = from.Close() }()
	if info, err := from.Stat(); err != nil || !info.Mode().IsRegular() {
		return protocol.Reject(protocol.StepFailed, "the staged build is not a file")
	}
	if err := remove(to); err != nil {
		return err
	}
	into, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return fmt.Errorf("copying the build: %w", err)
	}
	hash := sha256.New()
	// One byte more than promised shows that there is more.
	n, err := io.Copy(io.MultiWriter(into, hash), io.LimitReader(from, r.Size+1))
	err = errors.Join(err, into.Chmod(0o755), into.Sync(), into.Close())
	switch {
	case err != nil:
		return fmt.Errorf("copying the build: %w", err)
	case n != r.Size:
		return protocol.Reject(protocol.DigestMismatch, "the staged build has %d bytes or more, the release %d", n, r.Size)
	case hex.EncodeToString(hash.Sum(nil)) != r.Digest:
		return protocol.Reject(protocol.DigestMismatch, "the staged build is not the released one: its SHA-256 is %x", hash.Sum(nil))
	}
	return nil
}

var machines = map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}

// examine checks whether the build can run on this node and reads its version.
func (u *Updater) examine(ctx context.Context, r protocol.Release, path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return protocol.Reject(protocol.ParamsInvalid, "the build is no program: %v", err)
	}
	machine := f.Machine
	if err := f.Close(); err != nil {
		return fmt.Errorf("reading the build: %w", err)
	}
	if want, ok := machines[u.Platform]; !ok || machine != want {
		return protocol.Reject(protocol.ParamsInvalid, "the build is for %s, this is %s", machine, u.Platform)
	}
	said, err := queryVersion(ctx, path)
	for range busyTries {
		// A child that was forked while the build was written has the file open until the child
		// calls exec.
		if !errors.Is(err, syscall.ETXTBSY) {
			break
		}
		time.Sleep(busyFor)
		said, err = queryVersion(ctx, path)
	}
	if err != nil {
		return protocol.Reject(protocol.StepFailed, "the build does not run here: %v", err)
	}
	if said != r.Version {
		return protocol.Reject(protocol.ParamsInvalid, "the build reports version %q, the release is of %s", said, r.Version)
	}
	return nil
}

const (
	busyTries = 40
	busyFor   = 25 * time.Millisecond
)

// versionTimeout is far more than printing a line needs, also on a busy node.
const versionTimeout = 15 * time.Second

// queryVersion lets a build print its version: gpuaas-agent VERSION, envelope …
func queryVersion(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.Stdout, cmd.Stderr = &limited{&out, maxVersionOutput}, &limited{&bytes.Buffer{}, maxVersionOutput}
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return "", err
	}
	words := strings.Fields(out.String())
	if len(words) < 2 || words[0] != Binary { //nolint:mnd // its name and its version
		return "", errors.New("it does not respond as an agent")
	}
	return strings.TrimSuffix(words[1], ","), nil
}

const maxVersionOutput = 4 << 10

// limited stores the first bytes and drops the others.
type limited struct {
	to   *bytes.Buffer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	l.to.Write(p[:n])
	return len(p), nil
}

// sum is the digest of a file, or empty.
func sum(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, io.LimitReader(f, protocol.MaxBinary)); err != nil {
		return ""
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	return nil
}
