package view

import (
	"context"
	"net/url"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// GetPlatformStatus handles GET /api/v3/platform/status.
func (s *Handlers) GetPlatformStatus(ctx context.Context, req oapi.GetPlatformStatusRequestObject) (oapi.GetPlatformStatusResponseObject, error) {
	m, shown := s.begin(ctx), oapi.PlatformStatus{}
	section(m, &shown.Health, "getHealthz", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.GetHealthz(ctx, oapi.GetHealthzRequestObject{})
	})
	section(m, &shown.Capacity, "getNodeCapacity", nil, getNodeCapacity)
	section(m, &shown.Details, "getHealthDetails", nil, getHealthDetails)
	return m.end(&shown, req.Params.IfNoneMatch)
}

// GetPlatformFleet handles GET /api/v3/platform/fleet.
func (s *Handlers) GetPlatformFleet(ctx context.Context, req oapi.GetPlatformFleetRequestObject) (oapi.GetPlatformFleetResponseObject, error) {
	m, shown := s.begin(ctx), oapi.PlatformFleet{}
	p := req.Params
	primary(m, &shown.Nodes, "listAdminNodes", func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListAdminNodes(ctx, oapi.ListAdminNodesRequestObject{Params: oapi.ListAdminNodesParams{
			Limit: p.Limit, Cursor: p.Cursor, Region: p.Region, Sku: p.Sku, Q: p.Q, Lifecycle: (*oapi.ListAdminNodesParamsLifecycle)(p.Lifecycle), Health: (*oapi.ListAdminNodesParamsHealth)(p.Health),
			Reachability: (*oapi.ListAdminNodesParamsReachability)(p.Reachability), Sort: (*oapi.ListAdminNodesParamsSort)(p.Sort),
		}})
	})
	section(m, &shown.Capacity, "getNodeCapacity", nil, getNodeCapacity)
	section(m, &shown.Faults, "listFaultReports", openFaults, listOpenFaults)
	return m.end(&shown, p.IfNoneMatch)
}

// GetPlatformNode handles GET /api/v3/platform/nodes/{name}.
func (s *Handlers) GetPlatformNode(ctx context.Context, req oapi.GetPlatformNodeRequestObject) (oapi.GetPlatformNodeResponseObject, error) {
	m, shown := s.begin(ctx), oapi.PlatformNode{}
	primary(m, &shown.Node, "getAdminNode", func(ctx context.Context, v1 operations) (any, error) {
		return v1.GetAdminNode(ctx, oapi.GetAdminNodeRequestObject{Name: req.Name})
	})
	section(m, &shown.Topology, "getNodeTopology", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.GetNodeTopology(ctx, oapi.GetNodeTopologyRequestObject{Name: req.Name})
	})
	section(m, &shown.Allocations, "listAdminAllocations", url.Values{"node": {req.Name}}, func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListAdminAllocations(ctx, oapi.ListAdminAllocationsRequestObject{Params: oapi.ListAdminAllocationsParams{Node: &req.Name}})
	})
	section(m, &shown.Trace, "traceDesired", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.TraceDesired(ctx, oapi.TraceDesiredRequestObject{Kind: oapi.KindNode, Name: req.Name})
	})
	return m.end(&shown, req.Params.IfNoneMatch)
}

// GetPlatformDrift handles GET /api/v3/platform/drift.
func (s *Handlers) GetPlatformDrift(ctx context.Context, req oapi.GetPlatformDriftRequestObject) (oapi.GetPlatformDriftResponseObject, error) {
	m, shown := s.begin(ctx), oapi.PlatformDrift{}
	primary(m, &shown.Drift, "listDrift", func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListDrift(ctx, oapi.ListDriftRequestObject{Params: oapi.ListDriftParams{
			Limit: req.Params.Limit, Cursor: req.Params.Cursor, Status: (*oapi.ListDriftParamsStatus)(req.Params.Status), Kind: req.Params.Kind,
		}})
	})
	section(m, &shown.Sources, "listGitSources", nil, listGitSources)
	return m.end(&shown, req.Params.IfNoneMatch)
}

// GetPlatformChanges handles GET /api/v3/platform/changes.
func (s *Handlers) GetPlatformChanges(ctx context.Context, req oapi.GetPlatformChangesRequestObject) (oapi.GetPlatformChangesResponseObject, error) {
	m, shown := s.begin(ctx), oapi.PlatformChanges{}
	p := req.Params
	primary(m, &shown.Plans, "listPlans", func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListPlans(ctx, oapi.ListPlansRequestObject{Params: oapi.ListPlansParams{
			Limit: p.Limit, Cursor: p.Cursor, Origin: (*oapi.ListPlansParamsOrigin)(p.Origin), Source: p.Source, Status: (*oapi.ListPlansParamsStatus)(p.Status),
		}})
	})
	section(m, &shown.Revisions, "listRevisions", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListRevisions(ctx, oapi.ListRevisionsRequestObject{Params: oapi.ListRevisionsParams{Limit: new(few)}})
	})
	section(m, &shown.Sources, "listGitSources", nil, listGitSources)
	return m.end(&shown, p.IfNoneMatch)
}

// GetPlatformChange handles GET /api/v3/platform/changes/{id}.
func (s *Handlers) GetPlatformChange(ctx context.Context, req oapi.GetPlatformChangeRequestObject) (oapi.GetPlatformChangeResponseObject, error) {
	m, shown := s.begin(ctx), oapi.PlatformChange{}
	primary(m, &shown.Plan, "getPlan", func(ctx context.Context, v1 operations) (any, error) {
		return v1.GetPlan(ctx, oapi.GetPlanRequestObject{Id: req.Id})
	})
	section(m, &shown.Sources, "listGitSources", nil, listGitSources)
	return m.end(&shown, req.Params.IfNoneMatch)
}

// GetPlatformOps handles GET /api/v3/platform/ops.
func (s *Handlers) GetPlatformOps(ctx context.Context, req oapi.GetPlatformOpsRequestObject) (oapi.GetPlatformOpsResponseObject, error) {
	m, shown := s.begin(ctx), oapi.PlatformOps{}
	section(m, &shown.Overview, "getOpsOverview", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.GetOpsOverview(ctx, oapi.GetOpsOverviewRequestObject{})
	})
	section(m, &shown.Health, "getHealthDetails", nil, getHealthDetails)
	section(m, &shown.Drift, "listDrift", url.Values{"status": {string(oapi.ListDriftParamsStatusOpen)}}, func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListDrift(ctx, oapi.ListDriftRequestObject{Params: oapi.ListDriftParams{Limit: new(few), Status: new(oapi.ListDriftParamsStatusOpen)}})
	})
	section(m, &shown.Plans, "listPlans", url.Values{"status": {string(oapi.ListPlansParamsStatusProposed)}}, func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListPlans(ctx, oapi.ListPlansRequestObject{Params: oapi.ListPlansParams{Limit: new(few), Status: new(oapi.ListPlansParamsStatusProposed)}})
	})
	section(m, &shown.Faults, "listFaultReports", openFaults, listOpenFaults)
	return m.end(&shown, req.Params.IfNoneMatch)
}
