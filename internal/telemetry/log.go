package telemetry

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"sync"
	"time"
)

// How long a line may wait, and how much may. A write for each request's line
// took a fifth of the reads that a server answers (A2); at 20 writes a second
// nothing of that is left.
const (
	logWithin = 50 * time.Millisecond
	logHolds  = 64 << 10
)

// logWriter collects lines and writes them together. It writes whole lines in their sequence. A
// killed process loses its last lines.
type logWriter struct {
	to io.Writer

	mu    sync.Mutex
	lines []byte
}

// Recent stores the last lines that were written, for support bundles.
type Recent struct {
	mu    sync.Mutex
	lines []byte
}

// recentBytes is the number of bytes that Recent stores at least. It stores less than twice as many.
const recentBytes = 1 << 20

// Write stores lines.
func (r *Recent) Write(lines []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, lines...)
	if len(r.lines) > 2*recentBytes { // seldom, so that a line costs one copy
		old := r.lines[len(r.lines)-recentBytes:]
		r.lines = append(make([]byte, 0, 2*recentBytes+logHolds), old[bytes.IndexByte(old, '\n')+1:]...)
	}
	return len(lines), nil
}

// Lines returns the stored lines, the oldest first.
func (r *Recent) Lines() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes.Clone(r.lines)
}

// NewLogWriter gathers for a writer.
func NewLogWriter(to io.Writer) *logWriter { return &logWriter{to: to} }

// Write buffers one line. The first line of a batch schedules its flush, so that an idle process
// has nothing to do.
func (w *logWriter) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.lines) == 0 {
		time.AfterFunc(logWithin, w.Flush)
	}
	w.lines = append(w.lines, line...)
	if len(w.lines) >= logHolds {
		w.flush()
	}
	return len(line), nil
}

// Flush writes what waits. Call it before the process ends.
func (w *logWriter) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
}

func (w *logWriter) flush() {
	if len(w.lines) > 0 {
		_, _ = w.to.Write(w.lines) // there is no place to report the failure
		w.lines = w.lines[:0]
	}
}

// Urgent is a handler whose lines wait in w, but for warnings and errors: what led
// to an end must be there after it.
func (w *logWriter) Urgent(lines slog.Handler) slog.Handler { return urgent{lines, w} }

type urgent struct {
	slog.Handler

	w *logWriter
}

func (u urgent) Handle(ctx context.Context, r slog.Record) error {
	err := u.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelWarn {
		u.w.Flush()
	}
	return err
}

func (u urgent) WithAttrs(attrs []slog.Attr) slog.Handler {
	return urgent{u.Handler.WithAttrs(attrs), u.w}
}

func (u urgent) WithGroup(name string) slog.Handler { return urgent{u.Handler.WithGroup(name), u.w} }
