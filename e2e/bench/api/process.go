package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/api/rest/bare"
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/telemetry"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/ratelimit"
)

// apiVariable is the environment variable that passes apiParameters to the process that serves the
// API.
const apiVariable = "GPUAAS_BENCH_DOOR"

type apiParameters struct {
	URL   string // of the database
	Log   string // the file that its log lines go to
	Smoke bool
}

// apiReady is the message of the process after it has started to serve.
type apiReady struct {
	Whole, Bare string   // addresses
	Paths       []string // of allocations
	// The cost of one GET by id, with all middlewares and without.
	Allocations, Micros [2]float64
}

// readCount is the number of allocations that the reads use.
const readCount = 256

// APIProcess serves the API twice until ctx ends: with all middlewares, and as
// bare handlers that receive the caller directly.
func APIProcess(ctx context.Context) error {
	var o apiParameters
	if err := json.Unmarshal([]byte(os.Getenv(apiVariable)), &o); err != nil {
		return fmt.Errorf("reading the parameters: %w", err)
	}
	debug.SetGCPercent(lab.CollectAt)
	pool, err := lab.OpenAs(ctx, o.URL, "api", lab.ApiConns)
	if err != nil {
		return err
	}
	defer pool.Close()
	log, err := os.Create(o.Log)
	if err != nil {
		return fmt.Errorf("making the log of the API: %w", err)
	}
	defer func() { _ = log.Close() }()   // it is not read
	lines := telemetry.NewLogWriter(log) // as the server writes it
	config, err := apiConfig(pg.Scoped{Pool: pool}, slog.New(lines.Urgent(slog.NewJSONHandler(lines, nil))))
	if err != nil {
		return err
	}
	contract, err := rest.ReadContract()
	if err != nil {
		return err
	}
	server, err := rest.New(contract, config) //nolint:contextcheck // its handlers take the context of the request they answer
	if err != nil {
		return err
	}
	var said apiReady
	if said.Paths, err = stock(ctx, server); err != nil {
		return err
	}
	known, err := said.count(ctx, contract, config, o.Smoke)
	if err != nil {
		return err
	}
	plain := server.HTTPServer()
	plain.Handler = bare.Handler(server.Handlers())
	plain.ConnContext = func(ctx context.Context, _ net.Conn) context.Context { return withCaller{ctx, known} }
	failed := make(chan error, 3)
	for server, address := range map[*http.Server]*string{server.HTTPServer(): &said.Whole, plain: &said.Bare} {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("listening: %w", err)
		}
		defer func() { _ = server.Close() }()
		*address = listener.Addr().String()
		go func() { failed <- server.Serve(listener) }()
	}
	go func() { failed <- server.ShareLimits(ctx) }()
	if err := json.NewEncoder(os.Stdout).Encode(said); err != nil {
		return fmt.Errorf("saying that it serves: %w", err)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// apiConfig builds the services that create and read allocations, as the server does.
func apiConfig(db pg.Pool, log *slog.Logger) (rest.Config, error) {
	v, err := lab.Services(db, &hint.Bus{}, log)
	if err != nil {
		return rest.Config{}, err
	}
	return rest.Config{
		Services: v,
		// The limits are counted as in production, and are too high to be reached.
		Limits: func(request.Class, identity.Caller) middleware.Limit {
			return middleware.Limit{PerMinute: 1 << 20, Burst: 1 << 20}
		},
		SharedLimits: ratelimit.Limits{DB: db}, Ready: func(context.Context) error { return nil },
		CursorKeys: envelope.NewRandomRing(), Log: log,
	}, nil
}

// withCaller adds to the context of a connection the values that the middlewares derive from a request:
// the caller, and the rows that the caller may read.
type withCaller struct {
	context.Context

	caller context.Context
}

func (t withCaller) Value(key any) any {
	if v := t.caller.Value(key); v != nil {
		return v
	}
	return t.Context.Value(key)
}

func ask(ctx context.Context, method, path, body string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("calling the API: %w", err)
	}
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	r.RequestURI, r.RemoteAddr = path, "127.0.0.1:1"
	r.Header.Set("Authorization", "Bearer "+lab.Token(0))
	r.Header.Set("Content-Type", "application/json")
	return r, nil
}

// stock creates the allocations for the reads and returns their paths.
func stock(ctx context.Context, server *rest.Server) (paths []string, err error) {
	for range readCount {
		r, err := ask(ctx, http.MethodPost, "/api/v1/allocations", lab.CreateBody)
		if err != nil {
			return nil, err
		}
		w := httptest.NewRecorder()
		server.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusCreated {
			return nil, fmt.Errorf("a create was answered %d: %s", w.Code, w.Body)
		}
		paths = append(paths, w.Header().Get("Location"))
	}
	return paths, nil
}

// fromMemory answers a read by id without the database, because the time of the database would hide
// that of the middlewares. It stores the context of the first request, which a bare handler needs.
type fromMemory struct {
	oapi.StrictServerInterface

	response oapi.GetAllocationResponseObject
	caller   context.Context //nolint:containedctx // the bare handler receives it
}

// GetAllocation reads from the database once.
func (m *fromMemory) GetAllocation(ctx context.Context, req oapi.GetAllocationRequestObject) (oapi.GetAllocationResponseObject, error) {
	if m.caller == nil {
		var err error
		if m.response, err = m.StrictServerInterface.GetAllocation(ctx, req); err != nil {
			return nil, err
		}
		m.caller, _ = request.Of(ctx)
	}
	return m.response, nil
}

// count measures one GET by id, with all middlewares and without. It returns the context that the
// middlewares made for it.
func (said *apiReady) count(ctx context.Context, contract *rest.Contract, config rest.Config, smoke bool) (context.Context, error) {
	m := &fromMemory{}
	server, err := rest.NewWith(contract, config, func(h oapi.StrictServerInterface) oapi.StrictServerInterface {
		m.StrictServerInterface = h
		return m
	})
	if err != nil {
		return nil, err
	}
	r, err := ask(ctx, http.MethodGet, said.Paths[0], "")
	if err != nil {
		return nil, err
	}
	if err := answers(server.Handler(), r); err != nil {
		return nil, err
	}
	plain := r.WithContext(withCaller{ctx, m.caller})
	if err := answers(bare.Handler(server.Handlers()), plain); err != nil {
		return nil, err
	}
	said.rounds(server, r, plain, smoke)
	return m.caller, nil
}

// answers checks that the measured response is not an error.
func answers(h http.Handler, r *http.Request) error {
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != http.StatusOK {
		return fmt.Errorf("a read was answered %d: %s", w.Code, w.Body)
	}
	return nil
}

// rounds alternates both handlers. It uses the smallest number of allocations, because the token is
// read again once a second and the runtime allocates, too. It uses the median of the times.
func (said *apiReady) rounds(server *rest.Server, whole, plain *http.Request, smoke bool) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	n, calls := 101, 1000
	if smoke {
		n, calls = 5, 100
	}
	said.Allocations = [2]float64{math.Inf(1), math.Inf(1)}
	var micros [2][]float64
	handlers, requests := [2]http.Handler{server.Handler(), bare.Handler(server.Handlers())}, [2]*http.Request{whole, plain}
	for range n {
		for i, h := range handlers {
			allocations, took := spent(h, requests[i], calls)
			said.Allocations[i] = min(said.Allocations[i], allocations)
			micros[i] = append(micros[i], took)
		}
	}
	said.Micros = [2]float64{lab.Median(micros[0]), lab.Median(micros[1])}
}

// spent returns the cost of one call: whole allocations, and microseconds of CPU time. Another
// process on the same core lengthens the elapsed time, but not the CPU time.
func spent(h http.Handler, r *http.Request, calls int) (allocations, micros float64) {
	var before, after runtime.MemStats
	w := &silent{}
	runtime.ReadMemStats(&before)
	began := worked()
	for range calls {
		w.header = http.Header{}
		h.ServeHTTP(w, r)
	}
	took := worked() - began
	runtime.ReadMemStats(&after)
	return math.Floor(float64(after.Mallocs-before.Mallocs) / float64(calls)), float64(took) / float64(time.Microsecond) / float64(calls)
}

// worked returns the CPU time of this process.
func worked() time.Duration {
	var use syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &use) // it fails for no arguments of ours
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// silent is a response writer that drops the response.
type silent struct{ header http.Header }

func (s *silent) Header() http.Header       { return s.header }
func (*silent) Write(b []byte) (int, error) { return len(b), nil }
func (*silent) WriteHeader(int)             {}
