// Package observed counts and times the requests to an object store, and gives each one a span.
package observed

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/product/storage/blob"
)

// Store is an object store whose requests are observed. It exports its metrics.
type Store struct {
	blob.Store

	clock    clock.Clock
	requests *prometheus.CounterVec
	failed   *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
}

var _ prometheus.Collector = (*Store)(nil)

// operations are the values of the label, which begin at zero.
var operations = []string{"put", "get", "stat", "delete", "list", "sign", "begin", "put_part", "parts", "complete", "abort", "uploads", "space"}

// New observes a store.
func New(store blob.Store, c clock.Clock) *Store {
	s := &Store{
		Store: store, clock: c,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gpuaas_storage_requests_total", Help: "Requests to the object store."}, []string{"operation"}),
		failed:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gpuaas_storage_errors_total", Help: "Requests to the object store that failed."}, []string{"operation"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "gpuaas_storage_request_seconds", Help: "Duration of requests to the object store; those with bytes last as long as their client.",
			Buckets: []float64{0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, 60, 600},
		}, []string{"operation"}),
	}
	for _, o := range operations {
		s.requests.WithLabelValues(o)
		s.failed.WithLabelValues(o)
	}
	return s
}

// Describe names the metrics.
func (s *Store) Describe(c chan<- *prometheus.Desc) {
	s.requests.Describe(c)
	s.failed.Describe(c)
	s.seconds.Describe(c)
}

// Collect reads the metrics.
func (s *Store) Collect(c chan<- prometheus.Metric) {
	s.requests.Collect(c)
	s.failed.Collect(c)
	s.seconds.Collect(c)
}

// begin begins a request. The function that it returns ends it.
func (s *Store) begin(ctx context.Context, operation string) (context.Context, func(error)) {
	ctx, span := otel.Tracer("storage").Start(ctx, "storage "+operation, trace.WithSpanKind(trace.SpanKindClient)) //nolint:spancheck // the returned function ends it
	began := s.clock.Now()
	return ctx, func(err error) { //nolint:spancheck // it ends the span
		s.requests.WithLabelValues(operation).Inc()
		s.seconds.WithLabelValues(operation).Observe(s.clock.Now().Sub(began).Seconds())
		if failure(ctx, err) {
			s.failed.WithLabelValues(operation).Inc()
			span.SetStatus(codes.Error, operation)
		}
		span.End()
	}
}

// failure reports whether the object store failed. A missing object, a caller who is gone, and bytes other than announced are
// failures of others.
func failure(ctx context.Context, err error) bool {
	if err == nil || ctx.Err() != nil {
		return false
	}
	for _, other := range []error{blob.ErrNotFound, blob.ErrUnsigned, blob.ErrSize, blob.ErrPart, context.Canceled} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}

// source stores the failure of a reader, which is not that of the object store.
type source struct {
	io.Reader

	err error
}

func (r *source) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}

// failure returns the failure of the reader as one that does not count, or err.
func (r *source) failure(err error) error {
	if r.err != nil {
		return blob.ErrSize
	}
	return err
}

// Put implements blob.Store.
func (s *Store) Put(ctx context.Context, id uuid.UUID, r io.Reader, size int64) (int64, error) {
	ctx, end := s.begin(ctx, "put")
	from := &source{Reader: r}
	n, err := s.Store.Put(ctx, id, from, size)
	end(from.failure(err))
	return n, err
}

// Get implements blob.Store. The span ends before the bytes are read.
func (s *Store) Get(ctx context.Context, id uuid.UUID, offset, length int64) (io.ReadCloser, error) {
	// Not the context of the span: the bytes are read after its end.
	_, end := s.begin(ctx, "get")
	r, err := s.Store.Get(ctx, id, offset, length)
	end(err)
	return r, err
}

// Stat implements blob.Store.
func (s *Store) Stat(ctx context.Context, id uuid.UUID) (blob.Info, error) {
	ctx, end := s.begin(ctx, "stat")
	info, err := s.Store.Stat(ctx, id)
	end(err)
	return info, err
}

// Delete implements blob.Store.
func (s *Store) Delete(ctx context.Context, id uuid.UUID) error {
	ctx, end := s.begin(ctx, "delete")
	err := s.Store.Delete(ctx, id)
	end(err)
	return err
}

// List implements blob.Store. All pages are one request.
func (s *Store) List(ctx context.Context, after uuid.UUID) iter.Seq2[blob.Info, error] {
	return forEach(ctx, s, "list", func(ctx context.Context) iter.Seq2[blob.Info, error] { return s.Store.List(ctx, after) })
}

// Sign implements blob.Store.
func (s *Store) Sign(ctx context.Context, r blob.Request) (blob.Signed, error) {
	ctx, end := s.begin(ctx, "sign")
	signed, err := s.Store.Sign(ctx, r)
	end(err)
	return signed, err
}

// Begin implements blob.Store.
func (s *Store) Begin(ctx context.Context, id uuid.UUID) (blob.Upload, error) {
	ctx, end := s.begin(ctx, "begin")
	u, err := s.Store.Begin(ctx, id)
	end(err)
	return u, err
}

// PutPart implements blob.Store.
func (s *Store) PutPart(ctx context.Context, u blob.Upload, number int, r io.Reader, size int64) (blob.Part, error) {
	ctx, end := s.begin(ctx, "put_part")
	from := &source{Reader: r}
	p, err := s.Store.PutPart(ctx, u, number, from, size)
	end(from.failure(err))
	return p, err
}

// Parts implements blob.Store.
func (s *Store) Parts(ctx context.Context, u blob.Upload) ([]blob.Part, error) {
	ctx, end := s.begin(ctx, "parts")
	list, err := s.Store.Parts(ctx, u)
	end(err)
	return list, err
}

// Complete implements blob.Store.
func (s *Store) Complete(ctx context.Context, u blob.Upload, parts []blob.Part) error {
	ctx, end := s.begin(ctx, "complete")
	err := s.Store.Complete(ctx, u, parts)
	end(err)
	return err
}

// Abort implements blob.Store.
func (s *Store) Abort(ctx context.Context, u blob.Upload) error {
	ctx, end := s.begin(ctx, "abort")
	err := s.Store.Abort(ctx, u)
	end(err)
	return err
}

// Uploads implements blob.Store. All pages are one request.
func (s *Store) Uploads(ctx context.Context, before time.Time) iter.Seq2[blob.Upload, error] {
	return forEach(ctx, s, "uploads", func(ctx context.Context) iter.Seq2[blob.Upload, error] { return s.Store.Uploads(ctx, before) })
}

// Space implements blob.Store.
func (s *Store) Space(ctx context.Context) (blob.Space, bool, error) {
	ctx, end := s.begin(ctx, "space")
	space, known, err := s.Store.Space(ctx)
	end(err)
	return space, known, err
}

func forEach[T any](ctx context.Context, s *Store, operation string, list func(context.Context) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		ctx, end := s.begin(ctx, operation)
		var failed error
		defer func() { end(failed) }()
		for one, err := range list(ctx) {
			failed = err
			if !yield(one, err) {
				return
			}
		}
	}
}
