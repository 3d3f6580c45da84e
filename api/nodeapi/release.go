package nodeapi

import (
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// Builds stores the builds of the agent that nodes may install.
type Builds interface {
	// Open opens a build by its digest. It returns not_found if the build does not exist.
	Open(digest string) (file *os.File, size int64, err error)
}

// build sends a node the build that it should install. The digest only names the file: the helper
// of the node verifies the signature of the build.
func (s *Server) build(w http.ResponseWriter, r *http.Request, _ caller) error {
	if s.Builds == nil || s.Binaries == nil {
		return errs.New(errs.NotFound, "this server has no builds of the agent")
	}
	defer s.Binaries.updating.Add(-1)
	if s.Binaries.updating.Add(1) > downloads {
		return errs.New(errs.Unavailable, "too many nodes download the agent at this time").Try("try again in a minute")
	}
	f, size, err := s.Builds.Open(r.PathValue("digest"))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_ = http.NewResponseController(w).SetWriteDeadline(wall().Add(binaryWithin)) // httptest's recorder does not support deadlines
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	if _, err := io.CopyN(w, f, size); err != nil {
		s.Log.DebugContext(r.Context(), "build not sent", "err", err)
	}
	return nil
}
