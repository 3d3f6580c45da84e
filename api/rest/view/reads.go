package view

import (
	"context"
	"net/url"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// The reads of sections that several screens have.

func getMe(ctx context.Context, v1 operations) (any, error) {
	return v1.GetMe(ctx, oapi.GetMeRequestObject{})
}

func getBalance(ctx context.Context, v1 operations) (any, error) {
	return v1.GetBalance(ctx, oapi.GetBalanceRequestObject{})
}

func getBillingLimits(ctx context.Context, v1 operations) (any, error) {
	return v1.GetBillingLimits(ctx, oapi.GetBillingLimitsRequestObject{})
}

func getNodeCapacity(ctx context.Context, v1 operations) (any, error) {
	return v1.GetNodeCapacity(ctx, oapi.GetNodeCapacityRequestObject{})
}

func listProjects(ctx context.Context, v1 operations) (any, error) {
	return v1.ListProjects(ctx, oapi.ListProjectsRequestObject{})
}

func listSSHKeys(ctx context.Context, v1 operations) (any, error) {
	return v1.ListSshKeys(ctx, oapi.ListSshKeysRequestObject{})
}

func listAPIKeys(ctx context.Context, v1 operations) (any, error) {
	return v1.ListApiKeys(ctx, oapi.ListApiKeysRequestObject{})
}

func getHealthDetails(ctx context.Context, v1 operations) (any, error) {
	return v1.GetHealthDetails(ctx, oapi.GetHealthDetailsRequestObject{})
}

func listGitSources(ctx context.Context, v1 operations) (any, error) {
	return v1.ListGitSources(ctx, oapi.ListGitSourcesRequestObject{})
}

var openFaults = url.Values{"status": {string(oapi.ListFaultReportsParamsStatusOpen)}}

func listOpenFaults(ctx context.Context, v1 operations) (any, error) {
	return v1.ListFaultReports(ctx, oapi.ListFaultReportsRequestObject{Params: oapi.ListFaultReportsParams{
		Limit: new(few), Status: new(oapi.ListFaultReportsParamsStatusOpen),
	}})
}
