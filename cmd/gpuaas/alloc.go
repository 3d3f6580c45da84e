package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
)

func newAlloc(a *app) *cobra.Command {
	return group("alloc", "Ask for GPUs, look at them, give them back",
		newAllocCreate(a), newAllocList(a, "list"), newAllocGet(a), newAllocRelease(a))
}

func newAllocList(a *app, use string) *cobra.Command {
	var status, sku string
	limit := 50
	cmd := &cobra.Command{
		Use: use, Short: "Your allocations, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			params := oapi.ListAllocationsParams{Sku: set(sku), Status: set(oapi.AllocationStatus(status))}
			all, err := readAll[oapi.Allocation](cmd.Context(), c, limit, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
				params.Limit, params.Cursor = size, cursor
				return c.ListAllocations(ctx, &params, c.inProject)
			})
			if err != nil {
				return err
			}
			a.moreThan(limit, all.More)
			return a.show(all.Raw, allocationTable(a.Clock.Now(), all.Items...))
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "only in this state, like active")
	cmd.Flags().StringVar(&sku, "sku", "", "only of this SKU")
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many; 0 for all")
	return cmd
}

func (a *app) moreThan(limit int, more bool) {
	if more {
		a.say("There are more than %d: --limit 0 shows all.", limit)
	}
}

func newAllocGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "One allocation", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			found, err := c.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showAllocation(found)
		},
	}
}

func (a *app) showAllocation(found answer[oapi.Allocation]) error {
	if err := a.show(found.Raw, allocationTable(a.Clock.Now(), found.Value)); err != nil {
		return err
	}
	waits := pendingSections(found.Value.Pending)
	if len(waits) == 0 || a.data() || a.format() == "name" {
		return nil
	}
	return a.write("\n" + a.sections(waits...))
}

// find looks an allocation up by id or name. A name may come back once its
// allocation has ended, so one that lives is meant before one that does not.
func (c *client) find(ctx context.Context, ref string) (answer[oapi.Allocation], error) {
	ref = strings.TrimPrefix(strings.TrimPrefix(ref, "allocation/"), "alloc/")
	if id, err := uuid.Parse(ref); err == nil {
		return c.allocation(ctx, id)
	}
	all, err := readAll[oapi.Allocation](ctx, c, 20, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListAllocations(ctx, &oapi.ListAllocationsParams{Name: &ref, Limit: size, Cursor: cursor}, c.inProject)
	})
	if err != nil {
		return answer[oapi.Allocation]{}, err
	}
	if len(all.Items) == 0 {
		return answer[oapi.Allocation]{}, &failure{
			Message: "there is no allocation " + strconv.Quote(ref), Code: string(errs.NotFound),
			Try: "gpuaas alloc list", Correlation: c.correlation, Exit: exitNotFound,
		}
	}
	chosen := all.Items[0] // the newest
	for _, one := range all.Items {
		if !ended(one.Status) {
			chosen = one
			break
		}
	}
	return c.allocation(ctx, chosen.Id)
}

func (c *client) allocation(ctx context.Context, id uuid.UUID) (answer[oapi.Allocation], error) {
	return ask[oapi.Allocation](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.GetAllocation(ctx, id, nil, c.inProject)
	})
}

func ended(s oapi.AllocationStatus) bool {
	return s == oapi.AllocationStatusReleased || s == oapi.AllocationStatusFailed
}

func allocationTable(now time.Time, all ...oapi.Allocation) table {
	t := table{
		head: []string{"NAME", "READY", "STATUS", "SYNC", "HEALTH", "REVISION", "SKU", "GPUS", "COST", "AGE", "MESSAGE"},
		wide: []string{"REGION", "LOGIN", "PRICE/H", "EXPIRES", "ID"},
	}
	for _, one := range all {
		ready, _ := condition(one.Conditions, "Ready")
		sync, health := axes(one)
		expires := "-"
		if one.ExpiresAt != nil {
			expires = one.ExpiresAt.UTC().Format(time.RFC3339)
		}
		t.add("allocation/"+one.Name,
			one.Name, truth(ready.Status), string(one.Status), sync, health, strconv.FormatInt(one.Version, 10),
			one.Sku, strconv.Itoa(one.Gpus), amount(one.Cost), age(now, one.CreatedAt),
			orDash(cmp.Or(deref(one.Message), ready.Message)),
			orDash(one.Region), orDash(one.Login), amount(one.Price), expires, one.Id.String())
	}
	return t
}

// whatOf says what an allocation is of, and where when that was chosen.
func whatOf(one oapi.Allocation) string {
	text := fmt.Sprintf("%d × %s", one.Gpus, one.Sku)
	if one.Region != "" {
		text += " in " + one.Region
	}
	return text
}

// axes are the two that are never merged into one: does it match what was asked,
// and is it well. Each state says both; a drift is seen besides.
func axes(one oapi.Allocation) (sync, health string) {
	switch one.Status {
	case oapi.AllocationStatusActive:
		sync, health = "Synced", "Healthy"
	case oapi.AllocationStatusReleased:
		sync, health = "Synced", "Missing"
	case oapi.AllocationStatusFailed, oapi.AllocationStatusReleaseFailed:
		sync, health = "OutOfSync", "Degraded"
	case oapi.AllocationStatusRequested, oapi.AllocationStatusProvisioning, oapi.AllocationStatusReleasing:
		sync, health = "OutOfSync", "Progressing"
	default:
		return "Unknown", "Unknown"
	}
	if holds(one.Conditions, "Drifted") {
		sync = "OutOfSync"
	}
	return sync, health
}

// raw puts documents of the API under names, for what is made of several.
func raw(parts map[string]json.RawMessage) (json.RawMessage, error) { return encode(parts) }
