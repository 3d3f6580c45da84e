package nodeapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Binaries are the builds of the agent in one folder: gpuaas-agent for the platform of the server,
// gpuaas-agent-<os>-<arch> for others. An operator who enrols a node receives the digest of the
// build over a trusted channel.
type Binaries struct {
	Dir string

	mu       sync.Mutex
	byPath   map[string]Binary
	sending  atomic.Int32 // downloads without a certificate
	updating atomic.Int32 // downloads by nodes; a separate count, so that anonymous downloads cannot block updates
}

// Binary is one build.
type Binary struct {
	Path     string
	Digest   string // SHA-256, hex
	Size     int64
	modified time.Time
}

const (
	binaryName = "gpuaas-agent"
	// binaryWithin is long enough for a slow connection to download about 20 MB.
	binaryWithin = 10 * time.Minute
)

var platforms = regexp.MustCompile(`^linux-(amd64|arm64)$`)

// Find returns the build for a platform such as linux-amd64. The digest is computed once for each
// file. A changed size or modification time means a new build, whose digest is computed again.
func (b *Binaries) Find(platform string) (Binary, error) {
	missing := errs.New(errs.NotFound, "no agent build for %q", platform).
		Try("the server reads %s-%s, or %s for its own platform, from %s", binaryName, platform, binaryName, "its agent folder")
	if b == nil || !platforms.MatchString(platform) {
		return Binary{}, missing
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range []string{binaryName + "-" + platform, binaryName} {
		if name == binaryName && platform != runtime.GOOS+"-"+runtime.GOARCH {
			continue
		}
		path := filepath.Join(b.Dir, name)
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return Binary{}, fmt.Errorf("looking for the agent: %w", err)
		}
		if known, ok := b.byPath[path]; ok && known.Size == info.Size() && known.modified.Equal(info.ModTime()) {
			return known, nil
		}
		found, err := digest(path, info)
		if err != nil {
			return Binary{}, err
		}
		if b.byPath == nil {
			b.byPath = map[string]Binary{}
		}
		b.byPath[path] = found
		return found, nil
	}
	return Binary{}, missing
}

func digest(path string, info fs.FileInfo) (Binary, error) {
	f, err := os.Open(path)
	if err != nil {
		return Binary{}, fmt.Errorf("reading the agent: %w", err)
	}
	defer func() { _ = f.Close() }()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return Binary{}, fmt.Errorf("reading the agent: %w", err)
	}
	return Binary{Path: path, Digest: hex.EncodeToString(sum.Sum(nil)), Size: info.Size(), modified: info.ModTime()}, nil
}

// downloads limits how many clients may download at the same time. Binaries counts nodes and other
// clients separately.
const downloads = 16

// binary sends the agent. It needs no certificate, because the file contains no secret and the
// operator compares its digest before running it.
func (s *Server) binary(w http.ResponseWriter, r *http.Request, _ caller) error {
	found, err := s.Binaries.Find(r.PathValue("platform"))
	if err != nil {
		return err
	}
	defer s.Binaries.sending.Add(-1)
	if s.Binaries.sending.Add(1) > downloads {
		return errs.New(errs.Unavailable, "too many nodes download the agent at this time").Try("try again in a minute")
	}
	f, err := os.Open(found.Path)
	if err != nil {
		return fmt.Errorf("reading the agent: %w", err)
	}
	defer func() { _ = f.Close() }()
	_ = http.NewResponseController(w).SetWriteDeadline(wall().Add(binaryWithin)) // httptest's recorder does not support deadlines
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(found.Size, 10))
	w.Header().Set("ETag", `"`+found.Digest+`"`)
	if _, err := io.CopyN(w, f, found.Size); err != nil {
		s.Log.DebugContext(r.Context(), "agent not sent", "err", err)
	}
	return nil
}
