package rest

import (
	"context"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// Check checks one dependency. Its name is stable. Check returns the status, with a message for users
// when the status is not ok.
type Check struct {
	Name  string
	Check func(context.Context) (Status, string)
}

// Status is the status of a dependency. A degraded dependency still works.
type Status string

// The statuses, from best to worst.
const (
	OK       Status = "ok"
	Degraded Status = "degraded"
	Down     Status = "down"
)

const (
	// checkFor limits one check: a dependency that does not respond in time is down. All checks run
	// concurrently.
	checkFor = 2 * time.Second
	// checkEvery is the time for which results are cached. The operation is public, so without a
	// cache anyone could put load on every dependency.
	checkEvery = time.Second
)

// health caches the last results, and the time at which each check reached its status.
type health struct {
	checks []Check
	clock  clock.Clock
	ready  func(context.Context) error

	mu    sync.Mutex
	at    time.Time
	state []oapi.Check
}

// check returns the status of all checks. It runs them only if the cached results are older than
// checkEvery.
func (h *health) check(ctx context.Context) oapi.Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.Now()
	if h.state == nil || now.Sub(h.at) >= checkEvery {
		h.ask(ctx, now)
	}
	worst := oapi.HealthStatusOk
	for _, c := range h.state {
		switch {
		case c.Status == oapi.CheckStatusDown:
			worst = oapi.HealthStatusDown
		case c.Status == oapi.CheckStatusDegraded && worst == oapi.HealthStatusOk:
			worst = oapi.HealthStatusDegraded
		}
	}
	return oapi.Health{Status: worst, Checks: append([]oapi.Check{}, h.state...)}
}

func (h *health) ask(ctx context.Context, now time.Time) {
	// The first caller may disconnect, but other callers use the same results.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkFor)
	defer cancel()
	fresh := make([]oapi.Check, len(h.checks))
	var wg sync.WaitGroup
	for i, c := range h.checks {
		wg.Go(func() {
			status, message := c.Check(ctx)
			fresh[i] = oapi.Check{Name: c.Name, Status: oapi.CheckStatus(status), Message: message, StartedAt: now}
		})
	}
	wg.Wait()
	for i := range fresh {
		if h.state != nil && h.state[i].Status == fresh[i].Status {
			fresh[i].StartedAt = h.state[i].StartedAt
		}
	}
	h.state, h.at = fresh, now
}

// GetLivez handles GET /livez. It checks no dependency, because a response already proves that the
// process runs.
func (*health) GetLivez(context.Context, oapi.GetLivezRequestObject) (oapi.GetLivezResponseObject, error) {
	return oapi.GetLivez200JSONResponse{Status: oapi.LivenessStatusOk}, nil
}

// GetReadyz handles GET /readyz.
func (h *health) GetReadyz(ctx context.Context, _ oapi.GetReadyzRequestObject) (oapi.GetReadyzResponseObject, error) {
	ctx, _ = request.Of(ctx)
	ctx, cancel := context.WithTimeout(ctx, checkFor)
	defer cancel()
	if err := h.ready(ctx); err != nil {
		return nil, errs.New(errs.Unavailable, "the database is away").Because(err)
	}
	return oapi.GetReadyz200JSONResponse{Status: oapi.LivenessStatusOk}, nil
}

// GetHealthDetails handles GET /api/v1/admin/health.
func (h *health) GetHealthDetails(ctx context.Context, _ oapi.GetHealthDetailsRequestObject) (oapi.GetHealthDetailsResponseObject, error) {
	ctx, _ = request.Of(ctx)
	return oapi.GetHealthDetails200JSONResponse(h.check(ctx)), nil
}

// GetHealthz handles GET /api/v1/healthz. Its callers are anonymous, so it removes the messages:
// they name nodes, Git sources and addresses.
func (h *health) GetHealthz(ctx context.Context, _ oapi.GetHealthzRequestObject) (oapi.GetHealthzResponseObject, error) {
	ctx, _ = request.Of(ctx)
	seen := h.check(ctx)
	for i := range seen.Checks {
		seen.Checks[i].Message = ""
	}
	if seen.Status == oapi.HealthStatusDown {
		return oapi.GetHealthz503JSONResponse(seen), nil
	}
	return oapi.GetHealthz200JSONResponse(seen), nil
}
