// Package patience extends the deadlines of a request while its bytes move. A body may have any size, but its next bytes arrive or
// leave within a minute.
package patience

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
)

const (
	// patience is the time within which the next bytes move.
	patience = time.Minute
	// extendEvery limits the number of changed deadlines.
	extendEvery = 5 * time.Second
)

// Deadlines are those of a request.
type Deadlines struct {
	Control *http.ResponseController
	Clock   clock.Clock

	extended time.Time
}

// Extend moves both deadlines, unless it has just done so. The end of a response is later than that of a body, because the client may
// still send.
func (d *Deadlines) Extend() error {
	now := d.Clock.Now()
	if now.Sub(d.extended) < extendEvery {
		return nil
	}
	d.extended = now
	for _, err := range []error{d.Control.SetReadDeadline(now.Add(patience)), d.Control.SetWriteDeadline(now.Add(2 * patience))} {
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
	}
	return nil
}

// Body extends the deadlines of a request while its client sends.
type Body struct {
	io.ReadCloser
	Deadlines
}

// Read reads from the body.
func (b *Body) Read(p []byte) (int, error) {
	if err := b.Extend(); err != nil {
		return 0, err
	}
	return b.ReadCloser.Read(p)
}
