package observed_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/blob/blobtest"
	"github.com/gpuaas/gpuaas/product/storage/blob/files"
	"github.com/gpuaas/gpuaas/product/storage/blob/observed"
)

func open(t *testing.T) *observed.Store {
	t.Helper()
	store, err := files.Open(t.TempDir(), clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return observed.New(store, clock.Clock{})
}

// An observed store is a store.
func TestContract(t *testing.T) {
	t.Parallel()
	blobtest.Contract(t, http.DefaultClient, func(t *testing.T) blob.Store { t.Helper(); return open(t) })
}

type broken struct{ blob.Store }

var errBroken = errors.New("broken")

func (broken) Stat(context.Context, uuid.UUID) (blob.Info, error) { return blob.Info{}, errBroken }

func (broken) Put(_ context.Context, _ uuid.UUID, r io.Reader, _ int64) (int64, error) {
	n, err := io.Copy(io.Discard, r)
	return n, err
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errBroken }

// Failures of the object store count, and those of clients do not.
func TestOnlyFailuresOfTheStoreAreErrors(t *testing.T) {
	t.Parallel()
	s := observed.New(broken{}, clock.Clock{})
	ctx, cancel := context.WithCancel(t.Context())
	_, _ = s.Put(ctx, uuid.New(), failing{}, 3)
	_, _ = s.Stat(ctx, uuid.New())
	cancel()
	_, _ = s.Stat(ctx, uuid.New())
	for name, want := range map[string]map[string]float64{
		"gpuaas_storage_errors_total":   {"stat": 1, "put": 0},
		"gpuaas_storage_requests_total": {"stat": 2, "put": 1},
	} {
		for operation, n := range want {
			if got := counted(t, s, name, operation); got != n {
				t.Errorf("%s of %s is %v, want %v", name, operation, got, n)
			}
		}
	}
	healthy := open(t)
	_, _ = healthy.Stat(t.Context(), uuid.New())
	if got := counted(t, healthy, "gpuaas_storage_errors_total", "stat"); got != 0 {
		t.Errorf("a missing object is %v errors", got)
	}
}

func counted(t *testing.T, s *observed.Store, name, operation string) float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == operation {
				return m.GetCounter().GetValue()
			}
		}
	}
	return -1
}
