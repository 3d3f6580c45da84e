package patience_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/patience"
)

// recorder records the deadlines that are set.
type recorder struct {
	http.ResponseWriter

	read, write []time.Duration
	now         func() time.Time
}

func (r *recorder) SetReadDeadline(at time.Time) error {
	r.read = append(r.read, at.Sub(r.now()))
	return nil
}

func (r *recorder) SetWriteDeadline(at time.Time) error {
	r.write = append(r.write, at.Sub(r.now()))
	return nil
}

func TestDeadlinesMoveWithTheBody(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	w := &recorder{ResponseWriter: httptest.NewRecorder(), now: func() time.Time { return now }}
	b := &patience.Body{ReadCloser: io.NopCloser(strings.NewReader("abcdef")), Deadlines: patience.Deadlines{Control: http.NewResponseController(w), Clock: clock.At(w.now)}}
	for range 6 { // at 0, 2, 4, 6, 8 and 10 seconds
		if n, err := b.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		now = now.Add(2 * time.Second)
	}
	if len(w.read) != 2 || w.read[1] != time.Minute || len(w.write) != 2 || w.write[1] != 2*time.Minute {
		t.Errorf("read deadlines %v, write deadlines %v", w.read, w.write)
	}
}
