// Package alloc contains the commands of allocations, SSH keys and SSH sessions.
package alloc

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
)

// NewAlloc returns the group alloc with further commands of other packages.
func NewAlloc(a *output.Console, more ...*cobra.Command) *cobra.Command {
	return output.Group("alloc", "Manage allocations", append(more,
		newAllocCreate(a), newAllocPreview(a), NewAllocList(a, "list"), newAllocGet(a), newAllocUpdate(a), newAllocWhy(a), newAllocTelemetry(a), newAllocReportFault(a), newAllocFaults(a), newAllocProof(a), newAllocRelease(a))...)
}

func NewAllocList(a *output.Console, use string) *cobra.Command {
	var status, sku string
	limit := 50
	cmd := &cobra.Command{
		Use: use, Short: "List allocations", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			params := oapi.ListAllocationsParams{Sku: output.PointerOrNil(sku), Status: output.PointerOrNil(oapi.AllocationStatus(status))}
			all, err := client.ReadAll[oapi.Allocation](cmd.Context(), c, limit, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
				params.Limit, params.Cursor = size, cursor
				return c.ListAllocations(ctx, &params, c.InProject)
			})
			if err != nil {
				return err
			}
			a.NotifyMore(limit, all.More)
			return a.Show(all.Raw, AllocationTable(a.Clock.Now(), all.Items...))
		},
	}
	cmd.Flags().StringVar(&status, "status", "", "only in this state, like active")
	cmd.Flags().StringVar(&sku, "sku", "", "only of this SKU")
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many; 0 for all")
	return cmd
}

func newAllocGet(a *output.Console) *cobra.Command {
	return &cobra.Command{
		Use: "get NAME", Short: "Show an allocation", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := client.Connect(a)
			if err != nil {
				return err
			}
			found, err := c.Find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return showAllocation(a, found)
		},
	}
}

func showAllocation(a *output.Console, found client.Response[oapi.Allocation]) error {
	if err := a.Show(found.Raw, AllocationTable(a.Clock.Now(), found.Value)); err != nil {
		return err
	}
	if access, _ := output.Condition(found.Value.Conditions, "AccessReady"); access.Reason == oapi.ConditionReasonNoSSHKey {
		a.Notify("%s %s", output.SymbolWarn, access.Message)
	}
	waits := PendingSections(found.Value.Pending)
	if len(waits) == 0 || a.Data() || a.Format() == "name" {
		return nil
	}
	return a.Write("\n" + a.Sections(waits...))
}

func AllocationTable(now time.Time, all ...oapi.Allocation) output.Table {
	t := output.Table{
		Head: []string{"NAME", "READY", "STATUS", "SYNC", "HEALTH", "REVISION", "SKU", "GPUS", "COST", "AGE", "MESSAGE"},
		Wide: []string{"REGION", "LOGIN", "PRICE/H", "EXPIRES", "ID"},
	}
	for _, one := range all {
		ready, _ := output.Condition(one.Conditions, "Ready")
		sync, health := Axes(one)
		expires := "-"
		if one.ExpiresAt != nil {
			expires = one.ExpiresAt.UTC().Format(time.RFC3339)
		}
		t.Add("allocation/"+one.Name,
			one.Name, output.ConditionSymbol(ready.Status), string(one.Status), sync, health, strconv.FormatInt(one.Version, 10),
			one.Sku, strconv.Itoa(one.Gpus), output.Amount(one.Cost), output.Age(now, one.CreatedAt),
			output.OrDash(cmp.Or(output.ValueOrZero(one.Message), ready.Message)),
			output.OrDash(one.Region), output.OrDash(one.Login), output.Amount(one.Price), expires, one.Id.String())
	}
	return t
}

// WhatOf describes an allocation: its GPUs and, if the user chose them, its region and node.
func WhatOf(one oapi.Allocation) string {
	text := fmt.Sprintf("%d × %s", one.Gpus, one.Sku)
	if one.Region != "" {
		text += " in " + one.Region
	}
	return text
}

// Axes returns the two summaries that are never merged: whether the allocation matches its spec,
// and whether it is healthy. Each state determines both; drift is added.
func Axes(one oapi.Allocation) (sync, health string) {
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
	if output.IsTrue(one.Conditions, "Drifted") {
		sync = "OutOfSync"
	}
	return sync, health
}
