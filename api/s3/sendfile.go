package s3

import (
	"io"
	"net/http"

	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// ReadFrom passes the bytes of a file to the connection, which can send a file without copying it.
func (w *patientWriter) ReadFrom(src io.Reader) (int64, error) {
	if w.replaced {
		return io.Copy(io.Discard, src)
	}
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	n, ok, err := blob.Send(response.Connection(w.ResponseWriter), src, w.deadlines.Extend)
	if !ok {
		return io.Copy(struct{ io.Writer }{w}, src)
	}
	return n, err
}
