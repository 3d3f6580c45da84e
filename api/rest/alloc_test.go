package rest_test

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/race"
)

// mostAdded limits the allocations that all middlewares add to a call by id.
const mostAdded = 10

// readOnce answers from memory after the first request, because what the database client allocates
// would hide what the middlewares allocate. It stores the context of the first request, which a handler
// without middlewares needs.
type readOnce struct {
	oapi.StrictServerInterface

	response   oapi.GetAllocationResponseObject
	withCaller context.Context //nolint:containedctx // the handler without middlewares receives it
}

func (m *readOnce) GetAllocation(ctx context.Context, req oapi.GetAllocationRequestObject) (_ oapi.GetAllocationResponseObject, err error) {
	if m.withCaller == nil {
		m.withCaller, _ = request.Of(ctx)
		m.response, err = m.StrictServerInterface.GetAllocation(ctx, req)
	}
	return m.response, err
}

type silent struct{ h http.Header }

func (n *silent) Header() http.Header         { return n.h }
func (n *silent) Write(b []byte) (int, error) { return len(b), nil }
func (n *silent) WriteHeader(int)             {}

// The same handler behind the same router, once bare and once with everything on.
func TestMiddlewaresAddFewAllocations(t *testing.T) { //nolint:paralleltest // it counts what the process allocates
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	var config rest.Config
	w := setup(t, func(_ *fixture, c *rest.Config) {
		c.Log = slog.New(slog.NewJSONHandler(discard{}, nil))
		config = *c
	})
	m := &readOnce{}
	server, err := rest.NewWith(w.contract, config, func(h oapi.StrictServerInterface) oapi.StrictServerInterface {
		m.StrictServerInterface = h
		return m
	})
	must(t, err)
	path := allocations + "/" + w.allocate(t).Id.String()
	newRequest := func() *http.Request {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
		must(t, err)
		req.RequestURI, req.RemoteAddr = path, "127.0.0.1:1"
		req.Header.Set("Authorization", "Bearer "+tokenOwner)
		return req
	}
	bare := gin.New()
	bare.ContextWithFallback = true
	oapi.RegisterHandlers(bare, oapi.NewStrictHandler(server.Handlers(), nil))
	server.Handler().ServeHTTP(&silent{h: http.Header{}}, newRequest())
	if m.response == nil {
		t.Fatal("the allocation was not read")
	}

	measure := func(h http.Handler, req *http.Request) float64 {
		w := &silent{}
		return testing.AllocsPerRun(500, func() {
			w.h = http.Header{}
			h.ServeHTTP(w, req)
		})
	}
	without, with := measure(bare, newRequest().WithContext(m.withCaller)), measure(server.Handler(), newRequest())
	t.Logf("%.0f allocations bare, %.0f with all middlewares: %.0f added", without, with, with-without)
	if added := with - without; added > mostAdded {
		t.Errorf("the middlewares add %.0f allocations, %d are allowed", added, mostAdded)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
