package rest

import (
	"context"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/allocation"
)

// mostAdded is what all middlewares together may add to a call by id.
const mostAdded = 10

// remembered is an identity room, and an allocation, that answer from memory as
// the real ones do when the token is cached.
type remembered struct {
	Identity
	Allocations
	Metering

	caller identity.Caller
	one    allocation.Allocation
}

func (m *remembered) Authenticate(context.Context, string) (identity.Caller, error) {
	return m.caller, nil
}

func (m *remembered) InProject(_ context.Context, c identity.Caller, _ string) (identity.Caller, error) {
	c.Project, c.ProjectRole = m.one.Project, "member"
	return c, nil
}

func (m *remembered) Get(context.Context, identity.Caller, ids.Allocation) (allocation.Allocation, error) {
	return m.one, nil
}

func (m *remembered) CostOf(context.Context, []ids.Allocation) (map[ids.Allocation]money.Minor, error) {
	return nil, nil //nolint:nilnil // nothing was used
}

type silent struct{ h http.Header }

func (n *silent) Header() http.Header         { return n.h }
func (n *silent) Write(b []byte) (int, error) { return len(b), nil }
func (n *silent) WriteHeader(int)             {}

// The same handler behind the same router, once bare and once with everything on.
func TestMiddlewaresAddFewAllocations(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	m := &remembered{
		caller: identity.Caller{User: ids.New[ids.User](), Role: "user", Tenant: ids.New[ids.Tenant](), TenantName: "dev", TenantRole: "member"},
		one:    allocation.Allocation{ID: ids.New[ids.Allocation](), Project: ids.New[ids.Project](), State: allocation.Active, Currency: "EUR", Version: 7},
	}
	s, err := New(Config{
		Identity: m, Allocations: m, Metering: m, CursorKey: make([]byte, 32),
		Log: slog.New(slog.NewJSONHandler(nobody{}, nil)), Clock: clock.At(func() time.Time { return time.Unix(1_800_000_000, 0) }),
		Limits: func(Class, identity.Caller) Limit { return Limit{PerMinute: 1 << 20, Burst: 1 << 20} },
	})
	if err != nil {
		t.Fatal(err)
	}
	path := "/api/v1/allocations/" + m.one.ID.String()
	ask := func() *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.RequestURI, req.RemoteAddr = path, "127.0.0.1:1"
		req.Header.Set("Authorization", "Bearer gpk_x")
		return req
	}

	bare := gin.New()
	bare.ContextWithFallback = true
	oapi.RegisterHandlers(bare, oapi.NewStrictHandler(s, nil))
	known := &call{caller: m.caller, op: s.operations[route{"GET", "/api/v1/allocations/:id"}]}
	known.caller.Project, known.caller.ProjectRole = m.one.Project, "member"

	measure := func(h http.Handler, req *http.Request) float64 {
		w := &silent{}
		return testing.AllocsPerRun(500, func() {
			w.h = http.Header{}
			h.ServeHTTP(w, req)
		})
	}
	plain := ask()
	known.Context = plain.Context()
	without, with := measure(bare, plain.WithContext(known)), measure(s.Handler(), ask())
	t.Logf("%.0f allocations bare, %.0f with all middlewares: %.0f added", without, with, with-without)
	if added := with - without; added > mostAdded {
		t.Errorf("the middlewares add %.0f allocations, %d are allowed", added, mostAdded)
	}
}

type nobody struct{}

func (nobody) Write(b []byte) (int, error) { return len(b), nil }
