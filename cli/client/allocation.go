package client

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// Find returns an allocation by id or name. A name may be used again after its allocation has
// ended, so a live allocation has priority.
func (c *Client) Find(ctx context.Context, ref string) (Response[oapi.Allocation], error) {
	ref = strings.TrimPrefix(strings.TrimPrefix(ref, "allocation/"), "alloc/")
	if id, err := uuid.Parse(ref); err == nil {
		return c.Allocation(ctx, id)
	}
	all, err := ReadAll[oapi.Allocation](ctx, c, 20, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListAllocations(ctx, &oapi.ListAllocationsParams{Name: &ref, Limit: size, Cursor: cursor}, c.InProject)
	})
	if err != nil {
		return Response[oapi.Allocation]{}, err
	}
	if len(all.Items) == 0 {
		return Response[oapi.Allocation]{}, &output.CommandError{
			Message: "allocation " + strconv.Quote(ref) + " does not exist", Code: string(errs.NotFound),
			Try: "gpuaas alloc list", Correlation: c.Correlation, Exit: output.ExitNotFound,
		}
	}
	chosen := all.Items[0] // the newest
	for _, one := range all.Items {
		if !ended(one.Status) {
			chosen = one
			break
		}
	}
	return c.Allocation(ctx, chosen.Id)
}

func (c *Client) Allocation(ctx context.Context, id uuid.UUID) (Response[oapi.Allocation], error) {
	return Send[oapi.Allocation](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.GetAllocation(ctx, id, nil, c.InProject)
	})
}

func ended(s oapi.AllocationStatus) bool {
	return s == oapi.AllocationStatusReleased || s == oapi.AllocationStatusFailed
}
