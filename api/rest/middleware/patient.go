package middleware

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
)

const (
	// A body may have any size, but its next bytes arrive within patience.
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
		for _, err := range []error{b.control.SetReadDeadline(now.Add(patience)), b.control.SetWriteDeadline(now.Add(2 * patience))} {
			if err != nil && !errors.Is(err, http.ErrNotSupported) {
				return 0, err
			}
		}
	}
	return b.ReadCloser.Read(p)
}
