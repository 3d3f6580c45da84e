package s3

import (
	"io"
	"net/http"

	"github.com/gpuaas/gpuaas/api/s3/fault"
	"github.com/gpuaas/gpuaas/internal/patience"
)

// steady reads a part of a file, and extends the deadlines of the request meanwhile.
type steady struct {
	patience.Deadlines

	from io.Reader
	left int64
}

func (s *steady) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	if err := s.Extend(); err != nil {
		return 0, err
	}
	n, err := s.from.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	return n, err
}

// patientWriter extends the deadline of a response while its client reads. It replaces the errors of http.ServeContent.
type patientWriter struct {
	http.ResponseWriter

	deadlines patience.Deadlines
	request   *http.Request // of a download
	wrote     bool
	replaced  bool // the body is that of an error
}

// refusals has the errors of http.ServeContent.
var refusals = map[int]*fault.Error{
	http.StatusPreconditionFailed:           preconditionFailed(),
	http.StatusRequestedRangeNotSatisfiable: fault.New(fault.InvalidRange, "The requested range is not satisfiable"),
}

// WriteHeader replaces the status of an error by an error of S3.
func (w *patientWriter) WriteHeader(status int) {
	if w.wrote {
		return
	}
	w.wrote = true
	if e, refused := refusals[status]; refused && w.request != nil && !w.replaced {
		w.wrote, w.replaced = false, true
		writeFault(w.ResponseWriter, w.request, e)
		w.wrote = true
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *patientWriter) Write(p []byte) (int, error) {
	if w.replaced {
		return len(p), nil
	}
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	if err := w.deadlines.Extend(); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap returns the writer of net/http.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// fail writes an error, or breaks the connection where the response has begun.
func (w *patientWriter) fail(r *http.Request, e *fault.Error) {
	if w.wrote {
		panic(http.ErrAbortHandler)
	}
	writeFault(w, r, e)
}
