package s3

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/api/s3/fault"
	"github.com/gpuaas/gpuaas/internal/clock"
)

const (
	// A body may have any size, but its next bytes arrive or leave within patience.
	patience = time.Minute
	// extendEvery limits the number of changed deadlines.
	extendEvery = 5 * time.Second
)

// patientBody extends the deadlines of a request while its client sends.
type patientBody struct {
	io.ReadCloser

	control  *http.ResponseController
	clock    clock.Clock
	extended time.Time
}

func (b *patientBody) Read(p []byte) (int, error) {
	if now := b.clock.Now(); now.Sub(b.extended) >= extendEvery {
		b.extended = now
		if err := extend(b.control, now); err != nil {
			return 0, err
		}
	}
	return b.ReadCloser.Read(p)
}

// steady reads a part of a file, and extends the deadlines of the request meanwhile.
type steady struct {
	c        *call
	from     io.Reader
	left     int64
	extended time.Time
}

func (s *steady) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	if now := s.c.Clock.Now(); now.Sub(s.extended) >= extendEvery {
		s.extended = now
		if err := extend(http.NewResponseController(s.c.w), now); err != nil {
			return 0, err
		}
	}
	n, err := s.from.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	return n, err
}

// extend moves both deadlines.
func extend(control *http.ResponseController, now time.Time) error {
	for _, err := range []error{control.SetReadDeadline(now.Add(patience)), control.SetWriteDeadline(now.Add(2 * patience))} {
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
	}
	return nil
}

// patientWriter extends the deadline of a response while its client reads. It replaces the errors of http.ServeContent.
type patientWriter struct {
	http.ResponseWriter

	clock    clock.Clock
	extended time.Time
	request  *http.Request // of a download
	wrote    bool
	replaced bool // the body is that of an error
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
	if now := w.clock.Now(); now.Sub(w.extended) >= extendEvery {
		w.extended = now
		if err := extend(http.NewResponseController(w.ResponseWriter), now); err != nil {
			return 0, err
		}
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
