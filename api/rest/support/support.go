// Package support serves support bundles.
package support

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/version"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/support"
	"github.com/gpuaas/gpuaas/services"
)

// Process has the sections and the secrets of the process that serves the API.
type Process struct {
	Sections []support.Section
	Secrets  []support.Secret
}

// Handlers implements the operation of support bundles.
type Handlers struct {
	*services.Services

	Environment string
	Keys        *envelope.Ring // pseudonyms are the same in all bundles of the installation
	Operations  oapi.StrictServerInterface
	// Enter returns the call of another operation by the same caller, or the error of a caller without the right.
	Enter func(r *request.Call, operation string) (*request.Call, error)
	// Record writes the audit row of a bundle.
	Record func(ctx context.Context, c identity.Caller) error
	// Process reads the process; nil: a bundle has the sections of the API only.
	Process func() Process
}

// GetSupportBundle handles GET /api/v1/admin/support-bundle.
func (s *Handlers) GetSupportBundle(ctx context.Context, req oapi.GetSupportBundleRequestObject) (oapi.GetSupportBundleResponseObject, error) {
	ctx, r := request.Of(ctx)
	if err := s.Record(ctx, r.Caller); err != nil {
		return nil, err
	}
	r.Share()
	var of Process
	if s.Process != nil {
		of = s.Process()
	}
	o := support.Options{Environment: s.Environment, Version: version.Version, CreatedAt: s.Clock.Now()}
	if request.Or(req.Params.Pseudonyms, false) {
		o.PseudonymKey = s.Keys.Derive("support bundle: pseudonyms")
	}
	archive, err := support.Build(ctx, append(s.sections(r), of.Sections...), of.Secrets, o)
	if err != nil {
		return nil, err
	}
	return oapi.GetSupportBundle200ApplicationgzipResponse{Body: bytes.NewReader(archive), ContentLength: int64(len(archive))}, nil
}

// mostItems is the length of each list in a bundle.
var mostItems = 100

// named are the sections with names of people and of what they own.
var named = []string{"nodes.json", "plans.json", "revisions.json", "git-sources.json", "drift.json"}

// sections reads other operations as the caller, whose roles decide.
func (s *Handlers) sections(r *request.Call) []support.Section {
	all := []support.Section{{File: "jobs.json", Meaning: "Jobs that were given up or wait for another attempt, without their arguments.", Read: s.jobs}}
	for _, one := range []struct {
		file, operation, meaning string
		read                     func(context.Context, oapi.StrictServerInterface) (any, error)
	}{
		{support.HealthFile, "getHealthDetails", "The dependencies of this server.", func(ctx context.Context, v1 oapi.StrictServerInterface) (any, error) {
			return v1.GetHealthDetails(ctx, oapi.GetHealthDetailsRequestObject{})
		}},
		{support.OverviewFile, "getOpsOverview", "The panels of the overview of operations.", func(ctx context.Context, v1 oapi.StrictServerInterface) (any, error) {
			return v1.GetOpsOverview(ctx, oapi.GetOpsOverviewRequestObject{})
		}},
		{"policies.json", "listPolicies", "The policies in force.", func(ctx context.Context, v1 oapi.StrictServerInterface) (any, error) {
			return v1.ListPolicies(ctx, oapi.ListPoliciesRequestObject{})
		}},
		{"nodes.json", "listAdminNodes", "The newest nodes.", func(ctx context.Context, v1 oapi.StrictServerInterface) (any, error) {
			return v1.ListAdminNodes(ctx, oapi.ListAdminNodesRequestObject{Params: oapi.ListAdminNodesParams{Limit: &mostItems}})
		}},
		{"plans.json", "listPlans", "The last plans of changes.", func(ctx context.Context, v1 oapi.StrictServerInterface) (any, error) {
			return v1.ListPlans(ctx, oapi.ListPlansRequestObject{Params: oapi.ListPlansParams{Limit: &mostItems}})
		}},
		{"revisions.json", "listRevisions", "The last applied revisions.", func(ctx context.Context, v1 oapi.StrictServerInterface) (any, error) {
			return v1.ListRevisions(ctx, oapi.ListRevisionsRequestObject{Params: oapi.ListRevisionsParams{Limit: &mostItems}})
		}},
		{"git-sources.json", "listGitSources", "The Git sources with their last errors.", func(ctx context.Context, v1 oapi.StrictServerInterface) (any, error) {
			return v1.ListGitSources(ctx, oapi.ListGitSourcesRequestObject{Params: oapi.ListGitSourcesParams{Limit: &mostItems}})
		}},
		{"drift.json", "listDrift", "Differences of observed from desired state.", func(ctx context.Context, v1 oapi.StrictServerInterface) (any, error) {
			return v1.ListDrift(ctx, oapi.ListDriftRequestObject{Params: oapi.ListDriftParams{Limit: &mostItems}})
		}},
		{"dead-letters.json", "listDeadLetters", "Events that a consumer has given up, without their payloads.", func(ctx context.Context, v1 oapi.StrictServerInterface) (any, error) {
			return v1.ListDeadLetters(ctx, oapi.ListDeadLettersRequestObject{Params: oapi.ListDeadLettersParams{Limit: &mostItems}})
		}},
		{"consumers.json", "listConsumers", "The consumers of events with their lag.", func(ctx context.Context, v1 oapi.StrictServerInterface) (any, error) {
			return v1.ListConsumers(ctx, oapi.ListConsumersRequestObject{})
		}},
	} {
		all = append(all, support.Section{File: one.file, Meaning: one.meaning, Names: slices.Contains(named, one.file), Read: func(ctx context.Context) ([]byte, error) {
			in, err := s.Enter(r, one.operation)
			if err != nil {
				return nil, err
			}
			in.Context = ctx
			got, err := one.read(in, s.Operations) //nolint:contextcheck // the call is the context
			if err != nil {
				return nil, err
			}
			return document(got)
		}})
	}
	return all
}

// document is the body of a response, without its headers.
func document(response any) ([]byte, error) {
	text, err := json.Marshal(response)
	if err != nil {
		return nil, fmt.Errorf("encoding a section: %w", err)
	}
	var whole struct{ Body json.RawMessage }
	if json.Unmarshal(text, &whole) == nil && whole.Body != nil {
		return whole.Body, nil
	}
	return text, nil
}

// job is a job without its arguments, which name resources of tenants.
type job struct {
	ID          int64     `json:"id"`
	Kind        string    `json:"kind"`
	Queue       string    `json:"queue"`
	State       string    `json:"state"`
	Attempt     int       `json:"attempt"`
	MaxAttempts int       `json:"max_attempts"`
	CreatedAt   time.Time `json:"created_at"`
	ScheduledAt time.Time `json:"scheduled_at"`
	LastError   string    `json:"last_error,omitempty"`
}

func (s *Handlers) jobs(ctx context.Context) ([]byte, error) {
	list, err := s.Queue.JobList(ctx, river.NewJobListParams().States(rivertype.JobStateDiscarded, rivertype.JobStateRetryable).First(mostItems))
	if err != nil {
		return nil, fmt.Errorf("reading jobs: %w", err)
	}
	all := make([]job, len(list.Jobs))
	for i, j := range list.Jobs {
		all[i] = job{ID: j.ID, Kind: j.Kind, Queue: j.Queue, State: string(j.State), Attempt: j.Attempt, MaxAttempts: j.MaxAttempts, CreatedAt: j.CreatedAt, ScheduledAt: j.ScheduledAt}
		if n := len(j.Errors); n > 0 {
			all[i].LastError = j.Errors[n-1].Error
		}
	}
	return json.Marshal(map[string]any{"items": all})
}
