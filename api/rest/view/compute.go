package view

import (
	"context"
	"net/url"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// few is the number of rows of a list that only supplements a screen.
const few = 10

// GetComputeOverview handles GET /api/v3/compute/overview.
func (s *Handlers) GetComputeOverview(ctx context.Context, req oapi.GetComputeOverviewRequestObject) (oapi.GetComputeOverviewResponseObject, error) {
	m, shown := s.begin(ctx), oapi.ComputeOverview{}
	section(m, &shown.Me, "getMe", nil, getMe)
	section(m, &shown.Allocations, "listAllocations", url.Values{"status": {string(oapi.AllocationStatusActive)}}, func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListAllocations(ctx, oapi.ListAllocationsRequestObject{Params: oapi.ListAllocationsParams{Limit: new(few), Status: new(oapi.AllocationStatusActive)}})
	})
	section(m, &shown.Balance, "getBalance", nil, getBalance)
	section(m, &shown.Limits, "getBillingLimits", nil, getBillingLimits)
	section(m, &shown.Projects, "listProjects", nil, listProjects)
	section(m, &shown.SshKeys, "listSshKeys", nil, listSSHKeys)
	return m.end(&shown, req.Params.IfNoneMatch)
}

// GetComputeOffers handles GET /api/v3/compute/offers.
func (s *Handlers) GetComputeOffers(ctx context.Context, req oapi.GetComputeOffersRequestObject) (oapi.GetComputeOffersResponseObject, error) {
	m, shown := s.begin(ctx), oapi.ComputeOffers{}
	primary(m, &shown.Skus, "listSkus", func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListSkus(ctx, oapi.ListSkusRequestObject{Params: oapi.ListSkusParams{Limit: req.Params.Limit, Cursor: req.Params.Cursor}})
	})
	section(m, &shown.Capacity, "getNodeCapacity", nil, getNodeCapacity)
	section(m, &shown.Balance, "getBalance", nil, getBalance)
	return m.end(&shown, req.Params.IfNoneMatch)
}

// GetComputeLaunch handles GET /api/v3/compute/launch.
func (s *Handlers) GetComputeLaunch(ctx context.Context, req oapi.GetComputeLaunchRequestObject) (oapi.GetComputeLaunchResponseObject, error) {
	m, shown := s.begin(ctx), oapi.ComputeLaunch{}
	section(m, &shown.Skus, "listSkus", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListSkus(ctx, oapi.ListSkusRequestObject{})
	})
	section(m, &shown.Capacity, "getNodeCapacity", nil, getNodeCapacity)
	section(m, &shown.Projects, "listProjects", nil, listProjects)
	section(m, &shown.SshKeys, "listSshKeys", nil, listSSHKeys)
	section(m, &shown.Balance, "getBalance", nil, getBalance)
	section(m, &shown.Limits, "getBillingLimits", nil, getBillingLimits)
	return m.end(&shown, req.Params.IfNoneMatch)
}

// GetComputeAllocations handles GET /api/v3/compute/allocations.
func (s *Handlers) GetComputeAllocations(ctx context.Context, req oapi.GetComputeAllocationsRequestObject) (oapi.GetComputeAllocationsResponseObject, error) {
	m, shown, p := s.begin(ctx), oapi.ComputeAllocations{}, req.Params
	primary(m, &shown.Allocations, "listAllocations", func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListAllocations(ctx, oapi.ListAllocationsRequestObject{Params: oapi.ListAllocationsParams{
			Limit: p.Limit, Cursor: p.Cursor, Status: p.Status, Sku: p.Sku, Name: p.Name, Q: p.Q, Sort: (*oapi.ListAllocationsParamsSort)(p.Sort),
		}})
	})
	section(m, &shown.Projects, "listProjects", nil, listProjects)
	section(m, &shown.Balance, "getBalance", nil, getBalance)
	return m.end(&shown, p.IfNoneMatch)
}

// GetComputeAllocation handles GET /api/v3/compute/allocations/{id}.
func (s *Handlers) GetComputeAllocation(ctx context.Context, req oapi.GetComputeAllocationRequestObject) (oapi.GetComputeAllocationResponseObject, error) {
	m, shown := s.begin(ctx), oapi.ComputeAllocation{}
	primary(m, &shown.Allocation, "getAllocation", func(ctx context.Context, v1 operations) (any, error) {
		return v1.GetAllocation(ctx, oapi.GetAllocationRequestObject{Id: req.Id})
	})
	section(m, &shown.Timeline, "getAllocationTimeline", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.GetAllocationTimeline(ctx, oapi.GetAllocationTimelineRequestObject{Id: req.Id})
	})
	section(m, &shown.Why, "getAllocationWhy", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.GetAllocationWhy(ctx, oapi.GetAllocationWhyRequestObject{Id: req.Id})
	})
	section(m, &shown.Telemetry, "getAllocationTelemetry", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.GetAllocationTelemetry(ctx, oapi.GetAllocationTelemetryRequestObject{Id: req.Id})
	})
	section(m, &shown.Intervals, "listUsageIntervals", url.Values{"allocation_id": {req.Id.String()}}, func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListUsageIntervals(ctx, oapi.ListUsageIntervalsRequestObject{Params: oapi.ListUsageIntervalsParams{AllocationId: &req.Id}})
	})
	section(m, &shown.Faults, "listAllocationFaults", nil, func(ctx context.Context, v1 operations) (any, error) {
		return v1.ListAllocationFaults(ctx, oapi.ListAllocationFaultsRequestObject{Id: req.Id})
	})
	section(m, &shown.Balance, "getBalance", nil, getBalance)
	return m.end(&shown, req.Params.IfNoneMatch)
}
