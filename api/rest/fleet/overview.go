package fleet

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/agentrelease/rollout"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/nodehealth"
)

// counts are the values of a panel; its message is empty if nothing is wrong.
type counts = map[string]int64

// panel reads one part of the overview.
type panel struct {
	name    oapi.OpsPanelName
	runbook string
	read    func(context.Context) (message string, values counts, err error)
}

// panelTimeout bounds a panel, so that one slow part does not delay the others.
const panelTimeout = 3 * time.Second

// GetOpsOverview handles GET /api/v1/admin/ops/overview. It reads the panels concurrently; one that fails is
// unknown, and the others have their values.
func (s *Handlers) GetOpsOverview(ctx context.Context, _ oapi.GetOpsOverviewRequestObject) (oapi.GetOpsOverviewResponseObject, error) {
	ctx, _ = request.Of(ctx)
	panels := []panel{
		{oapi.OpsPanelNameNodes, "node-silent", s.nodesPanel},
		{oapi.OpsPanelNameCapacity, "gpu-unhealthy", s.capacityPanel},
		{oapi.OpsPanelNameAllocations, "release-failed", s.allocationsPanel},
		{oapi.OpsPanelNameBreaker, "mass-action-breaker", s.breakerPanel},
		{oapi.OpsPanelNameDrift, "drift-unresolved", s.driftPanel},
		{oapi.OpsPanelNameUsage, "accrual-lag", s.usagePanel},
		{oapi.OpsPanelNameSources, "git-sync-lag", s.sourcesPanel},
		{oapi.OpsPanelNameRollouts, "agent-update-stopped", s.rolloutsPanel},
	}
	shown := make([]oapi.OpsPanel, len(panels))
	var wg sync.WaitGroup
	for i, p := range panels {
		wg.Go(func() { shown[i] = p.show(ctx) })
	}
	wg.Wait()
	return oapi.GetOpsOverview200JSONResponse{Panels: shown}, nil
}

func (p panel) show(ctx context.Context) oapi.OpsPanel {
	ctx, cancel := context.WithTimeout(ctx, panelTimeout)
	defer cancel()
	message, values, err := p.read(ctx)
	shown := oapi.OpsPanel{Name: p.name, RunbookId: p.runbook, Status: oapi.OpsPanelStatusOk, Message: message, Values: values}
	switch {
	case err != nil:
		shown.Status, shown.Message, shown.Values = oapi.OpsPanelStatusUnknown, "this part cannot be read", counts{}
	case message != "":
		shown.Status = oapi.OpsPanelStatusDegraded
	}
	return shown
}

// mostNodes and mostSources are more than any installation has.
const mostNodes, mostSources = 100_000, 1000

func (s *Handlers) nodesPanel(ctx context.Context) (string, counts, error) {
	list, err := s.Fleet.Nodes(ctx, fleet.Filter{Limit: mostNodes})
	n := counts{"nodes": int64(len(list)), "stale": 0, "unhealthy": 0, "cordoned": 0, "draining": 0}
	for _, one := range list {
		for state, is := range map[string]bool{
			"stale": one.Reachability != "reachable" && one.Lifecycle != "declared", "unhealthy": one.Health == "unhealthy", "cordoned": one.Cordoned, "draining": one.Draining(),
		} {
			if is {
				n[state]++
			}
		}
	}
	return problem(n["stale"]+n["unhealthy"], "%d nodes are stale and %d unhealthy", n["stale"], n["unhealthy"]), n, err
}

// problem returns a message if something is wrong, and nothing otherwise.
func problem(wrong int64, format string, args ...any) string {
	if wrong == 0 {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func (s *Handlers) capacityPanel(ctx context.Context) (string, counts, error) {
	list, err := s.Slots.Capacity(ctx)
	n := counts{"slots": 0, "free": 0, "claimed": 0, "dirty": 0, "quarantined": 0}
	for _, c := range list {
		for state, of := range map[string]int{"slots": c.Total, "free": c.Free, "claimed": c.Claimed, "dirty": c.Dirty, "quarantined": c.Quarantined} {
			n[state] += int64(of)
		}
	}
	return problem(n["quarantined"], "%d slots are quarantined", n["quarantined"]), n, err
}

func (s *Handlers) allocationsPanel(ctx context.Context) (string, counts, error) {
	c, err := s.Managed.Counts(ctx, s.Clock.Now())
	n := counts{"active": c.Active, "queued": c.Queued, "paused": c.Paused, "release_failed": c.ReleaseFailed, "overdue": c.Overdue}
	return problem(c.ReleaseFailed+c.Overdue, "%d releases have failed and %d are overdue", c.ReleaseFailed, c.Overdue), n, err
}

func (s *Handlers) breakerPanel(ctx context.Context) (string, counts, error) {
	trip, ever, err := s.NodeHealth.Breaker(ctx)
	if err != nil || !ever || !trip.BreakerOpen() {
		return "", counts{"open": 0}, err
	}
	n := counts{"open": 1, "held": int64(trip.Held), "allowed": int64(trip.Allowed), "fleet": int64(trip.Fleet), "rejected_nodes": int64(trip.RejectedHolds)}
	return fmt.Sprintf("automatic holds are stopped since %s: %s", trip.TrippedAt.UTC().Format(time.RFC3339), trip.Reason), n, nil
}

func (s *Handlers) driftPanel(ctx context.Context) (string, counts, error) {
	open, overdue, err := s.History.Drifting(ctx)
	return problem(overdue, "%d differences are past their deadline", overdue), counts{"open": open, "overdue": overdue}, err
}

// lateUsage is the lag from which the alert on accrual fires.
const lateUsage = 15 * time.Minute

func (s *Handlers) usagePanel(ctx context.Context) (string, counts, error) {
	lag, err := s.Metering.Lag(ctx)
	message := ""
	if lag > lateUsage {
		message = "usage is not charged since " + lag.String()
	}
	return message, counts{"lag_seconds": int64(lag.Seconds())}, err
}

func (s *Handlers) sourcesPanel(ctx context.Context) (string, counts, error) {
	list, err := s.Desired.Sources(ctx, "", mostSources)
	n := counts{"sources": 0, "failing": 0, "suspended": 0}
	for _, one := range list {
		if one.GoneAt != nil {
			continue
		}
		n["sources"]++
		if one.Fault != "" {
			n["failing"]++
		}
		if one.Suspended != nil {
			n["suspended"]++
		}
	}
	return problem(n["failing"], "%d Git sources cannot be read", n["failing"]), n, err
}

func (s *Handlers) rolloutsPanel(ctx context.Context) (string, counts, error) {
	list, err := s.Releases.Rollouts(ctx, s.DB)
	n := counts{}
	for _, state := range []rollout.State{rollout.Rolling, rollout.Done, rollout.Stopped, rollout.Blocked} {
		n[string(state)] = 0
	}
	for _, one := range list {
		n[string(one.Status)]++
	}
	stopped := n[string(rollout.Stopped)]
	return problem(stopped, "%d agent updates are stopped", stopped), n, err
}

// ClearBreaker handles POST /api/v1/admin/breaker/clear.
func (s *Handlers) ClearBreaker(ctx context.Context, req oapi.ClearBreakerRequestObject) (oapi.ClearBreakerResponseObject, error) {
	ctx, r := request.Of(ctx)
	trip, err := s.NodeHealth.ClearOpenBreaker(ctx, response.Change(r, func(t nodehealth.Trip) identity.Reply {
		return response.Reply(http.StatusOK, s.toTrip(t), "", "")
	}), req.Body.Reason)
	if err != nil {
		return nil, err
	}
	return oapi.ClearBreaker200JSONResponse{Body: s.toTrip(trip)}, nil
}

func (s *Handlers) toTrip(t nodehealth.Trip) oapi.BreakerTrip {
	return oapi.BreakerTrip{
		Id: t.ID, Urn: s.Naming.Name("", "", "breaker", t.ID.String()).String(), CreatedAt: t.TrippedAt.UTC(), UpdatedAt: response.Later(t.TrippedAt, t.ClearedAt),
		TrippedAt: t.TrippedAt.UTC(), Held: t.Held, Allowed: t.Allowed, Fleet: t.Fleet, Reason: t.Reason, RejectedNodes: t.RejectedHolds,
		ClearedAt: response.UTC(t.ClearedAt), ClearedBy: response.OrNil(t.ClearedBy),
	}
}
