package recording

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/product/terminal"
)

// Failure is the reason why a recording has no more output.
type Failure string

// The reasons.
const (
	Failed Failure = "failed" // it could not be stored
	Slow   Failure = "slow"   // the database stored less than the terminal printed
	Full   Failure = "full"   // it has its maximum size
)

const (
	// maxPending limits the text that is not stored yet.
	maxPending = 256 << 10
	// flushAt and flushEvery end a chunk.
	flushAt    = 128 << 10
	flushEvery = time.Second
	retryEvery = 200 * time.Millisecond
	patience   = 3 * time.Second
)

// Options describe the recording of a session.
type Options struct {
	Columns, Rows int
	MaxBytes      int64
	// Required reports whether the session may not go on without the recording: the recorder then delays its output.
	Required func() bool
	// Failed is called once when the recording ends before the session.
	Failed func(Failure)
}

// Recorder writes one recording. Its methods can be called from several goroutines.
type Recorder struct {
	Options

	service *Service
	id      uuid.UUID
	tenant  ids.Tenant
	key     *envelope.Ring
	base    context.Context //nolint:containedctx // of the session
	begun   time.Time
	chunks  int // only the writer uses it
	wake    chan struct{}
	closing chan struct{}
	done    chan struct{}

	mu      sync.Mutex
	space   *sync.Cond
	pending text
	bytes   int64
	last    time.Duration
	failure Failure
}

// Begin begins the recording of a session.
func (s *Service) Begin(ctx context.Context, of terminal.Opened, o Options) (*Recorder, error) {
	key := envelope.NewKey()
	ring, err := ringOf(key)
	if err != nil {
		return nil, err
	}
	r := &Recorder{
		Options: o, service: s, id: of.ID, tenant: of.Tenant, key: ring, base: context.WithoutCancel(ctx), begun: s.Clock.Now(),
		wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
	}
	r.space = sync.NewCond(&r.mu)
	r.pending.header(o.Columns, o.Rows, r.begun)
	ctx, cancel := context.WithTimeout(ctx, s.patience())
	defer cancel()
	if _, err := s.DB.Exec(ctx, insertRecording, of.ID, of.Tenant, of.Project, of.Allocation, of.Principal, o.Required(), o.Columns, o.Rows,
		s.Seal.Seal(key, keyAt(of.ID)), of.CorrelationID); err != nil {
		return nil, fmt.Errorf("beginning the recording of %s: %w", of.ID, err)
	}
	go r.run() //nolint:contextcheck // a recording outlives the request that begins it
	return r, nil
}

// Output records output, and returns false if the recording has ended.
func (r *Recorder) Output(p []byte) bool {
	return r.add(len(p), func(at time.Duration) { r.pending.output(at, p) })
}

// Resize records the size of the terminal.
func (r *Recorder) Resize(columns, rows int) {
	r.add(0, func(at time.Duration) { r.pending.resize(at, columns, rows) })
}

func (r *Recorder) add(n int, write func(time.Duration)) bool {
	r.mu.Lock()
	for r.failure == "" && len(r.pending.lines) >= maxPending && r.Required() {
		r.space.Wait() // the writer stores it, or fails after its patience
	}
	switch {
	case r.failure != "":
		r.mu.Unlock()
		return false
	case len(r.pending.lines) >= maxPending:
		r.fail(Slow)
		return false
	case r.bytes+int64(n) > r.MaxBytes:
		r.fail(Full)
		return false
	}
	defer r.mu.Unlock()
	r.bytes += int64(n)
	r.last = r.service.Clock.Now().Sub(r.begun)
	write(r.last)
	if len(r.pending.lines) >= flushAt {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// fail ends the recording. The caller has locked the recorder.
func (r *Recorder) fail(why Failure) {
	first := r.failure == ""
	if first {
		r.failure = why
	}
	r.space.Broadcast()
	r.mu.Unlock()
	if first {
		r.Failed(why)
	}
}

// Recording reports whether output is still recorded.
func (r *Recorder) Recording() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure == ""
}

// Close stores what waits, and ends the recording.
func (r *Recorder) Close() error {
	close(r.closing)
	<-r.done
	ctx, cancel := context.WithTimeout(r.base, r.service.patience())
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := r.service.DB.Exec(ctx, endRecording, r.id, string(r.failure)); err != nil {
		return fmt.Errorf("ending the recording of %s: %w", r.id, err)
	}
	return nil
}

// run stores what waits until the recorder is closed.
func (r *Recorder) run() {
	defer close(r.done)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for last := false; !last; {
		select {
		case <-tick.C:
		case <-r.wake:
		case <-r.closing:
			last = true
		}
		if !r.flush(last) {
			return
		}
	}
}

// flush stores a chunk. What was recorded before a failure is stored, too, apart from what the database does not accept.
func (r *Recorder) flush(last bool) bool {
	r.mu.Lock()
	lines := r.pending.flush(last, r.last)
	c := chunk{number: r.chunks, bytes: r.bytes, last: r.last}
	r.space.Broadcast()
	r.mu.Unlock()
	if len(lines) == 0 {
		return true
	}
	ctx, cancel := context.WithTimeout(r.base, r.service.patience())
	defer cancel()
	for {
		err := r.store(ctx, c, lines)
		if err == nil {
			r.chunks++
			return true
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			r.mu.Lock()
			r.fail(Failed)
			return false
		}
	}
}

func (s *Service) patience() time.Duration {
	if s.Patience != 0 {
		return s.Patience
	}
	return patience
}

// chunk describes a part, and the recording up to its end.
type chunk struct {
	number int
	bytes  int64
	last   time.Duration
}

// store can be repeated: the response to a statement that was committed may have been lost.
func (r *Recorder) store(ctx context.Context, c chunk, lines []byte) error {
	e, err := encoder()
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	b.Queue(insertChunk, r.id, c.number, r.tenant, r.key.Seal(e.EncodeAll(lines, nil), chunkAt(r.id, c.number)))
	b.Queue(extendRecording, r.id, c.number+1, c.bytes, c.last.Milliseconds())
	return pg.Commit(ctx, r.service.DB, b, func() {})
}
