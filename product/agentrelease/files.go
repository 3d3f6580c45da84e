package agentrelease

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/protocol"
)

// Files stores the builds, each under its digest.
type Files struct{ Dir string }

var digestName = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Describe reads the properties of a build.
func Describe(path string) (b Build, err error) {
	if b.Platform, err = platformOf(path); err != nil {
		return b, err
	}
	from, err := os.Open(path)
	if err != nil {
		return b, fmt.Errorf("reading build: %w", err)
	}
	defer func() { _ = from.Close() }()
	sum := sha256.New()
	if b.Size, err = io.Copy(sum, io.LimitReader(from, protocol.MaxBinary+1)); err != nil {
		return b, fmt.Errorf("reading build: %w", err)
	}
	b.Digest = hex.EncodeToString(sum.Sum(nil))
	return b, nil
}

// Put copies a build into the folder and returns its properties. The same build is stored only once.
func (f Files) Put(path string) (b Build, err error) {
	if b.Platform, err = platformOf(path); err != nil {
		return b, err
	}
	from, err := os.Open(path)
	if err != nil {
		return b, fmt.Errorf("reading build: %w", err)
	}
	defer func() { _ = from.Close() }()
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return b, fmt.Errorf("keeping build: %w", err)
	}
	into, err := os.CreateTemp(f.Dir, ".build.*")
	if err != nil {
		return b, fmt.Errorf("keeping build: %w", err)
	}
	sum := sha256.New()
	b.Size, err = io.Copy(io.MultiWriter(into, sum), io.LimitReader(from, protocol.MaxBinary+1))
	err = errors.Join(err, into.Sync(), into.Close())
	b.Digest = hex.EncodeToString(sum.Sum(nil))
	switch {
	case err != nil:
		return b, errors.Join(fmt.Errorf("keeping build: %w", err), os.Remove(into.Name()))
	case b.Size > protocol.MaxBinary:
		return b, errors.Join(errs.New(errs.BodyTooLarge, "a build has at most %d bytes", protocol.MaxBinary), os.Remove(into.Name()))
	}
	if err := os.Rename(into.Name(), filepath.Join(f.Dir, b.Digest)); err != nil {
		return b, errors.Join(fmt.Errorf("keeping build: %w", err), os.Remove(into.Name()))
	}
	return b, nil
}

// Open opens a build by its digest: not_found where this server has none.
func (f Files) Open(digest string) (file *os.File, size int64, err error) {
	missing := errs.New(errs.NotFound, "this server has no such build of the agent")
	if f.Dir == "" || !digestName.MatchString(digest) {
		return nil, 0, missing
	}
	file, err = os.Open(filepath.Join(f.Dir, digest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, missing
	} else if err != nil {
		return nil, 0, fmt.Errorf("reading build: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("reading build: %w", err), file.Close())
	}
	return file, info.Size(), nil
}

var platforms = map[elf.Machine]string{elf.EM_X86_64: "linux/amd64", elf.EM_AARCH64: "linux/arm64"}

// platformOf reads for what a build was made.
func platformOf(path string) (string, error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", errs.New(errs.ValidationError, "%s is no program for Linux", path).Because(err)
	}
	machine := f.Machine
	if err := f.Close(); err != nil {
		return "", fmt.Errorf("reading build: %w", err)
	}
	if p, ok := platforms[machine]; ok {
		return p, nil
	}
	return "", errs.New(errs.ValidationError, "%s is for %s; nodes have one of x86-64 and 64-bit ARM", path, machine)
}

// VersionOf executes a build for the local machine and returns its version; empty for a build of another
// platform.
func VersionOf(ctx context.Context, path, platform string) (string, error) {
	if platform != runtime.GOOS+"/"+runtime.GOARCH {
		return "", nil
	}
	const within, most = 15 * time.Second, 4 << 10
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("asking the build: %w", err)
	}
	cmd := exec.CommandContext(ctx, path, "version")
	cmd.Env = []string{}
	out, err := cmd.Output()
	words := bytes.Fields(out[:min(len(out), most)])
	if err != nil || len(words) < 2 || string(words[0]) != "gpuaas-agent" { //nolint:mnd // its name and its version
		return "", errs.New(errs.ValidationError, "%s does not respond as an agent", path).Because(err)
	}
	return strings.TrimSuffix(string(words[1]), ","), nil
}
