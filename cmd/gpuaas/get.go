package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
)

func newGet(a *app) *cobra.Command {
	allocations := newAllocList(a, "allocations")
	allocations.Aliases = []string{"allocation", "alloc", "allocs"}
	return group("get", "List things", newGetNodes(a), newGetSkus(a), allocations, newGetPlans(a), newGetRevisions(a))
}

func newGetSkus(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "skus", Aliases: []string{"sku"}, Short: "What is sold, at which price, and how much is free", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			all, err := c.skus(cmd.Context())
			if err != nil {
				return err
			}
			return a.show(all.Raw, skuTable(all.Items...))
		},
	}
}

func (c *client) skus(ctx context.Context) (list[oapi.Sku], error) {
	return readAll[oapi.Sku](ctx, c, 0, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListSkus(ctx, &oapi.ListSkusParams{Limit: size, Cursor: cursor})
	})
}

func skuTable(all ...oapi.Sku) table {
	t := table{
		head: []string{"NAME", "GPU", "MEMORY", "PRICE/H", "FREE", "MAX", "REGIONS"},
		wide: []string{"ISOLATION", "DISPLAY NAME", "ID"},
	}
	for _, s := range all {
		var regions []string
		for _, r := range s.Regions {
			regions = append(regions, fmt.Sprintf("%s %d/%d", r.Region, r.Free, r.Total))
		}
		t.add("sku/"+s.Name,
			s.Name, s.GpuModel, strconv.Itoa(s.MemoryGib)+" GiB", amount(s.Price), strconv.Itoa(s.Free), strconv.Itoa(s.MaxGpus),
			orDash(strings.Join(regions, ", ")), string(s.Isolation), s.DisplayName, s.Id.String())
	}
	return t
}

func newGetNodes(a *app) *cobra.Command {
	limit := pageSize
	cmd := &cobra.Command{
		Use: "nodes", Aliases: []string{"node"}, Short: "The machines; for those who are no operators, capacity", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			all, err := c.nodes(cmd.Context(), limit)
			if forbidden(err) {
				a.say("The machines are for operators%s; this is their capacity.", a.asOperator())
				return a.capacity(cmd.Context(), c)
			}
			if err != nil {
				return err
			}
			a.moreThan(limit, all.More)
			return a.show(all.Raw, nodeTable(a.Clock.Now(), all.Items...))
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many; 0 for all")
	return cmd
}

func (c *client) nodes(ctx context.Context, limit int) (list[oapi.Node], error) {
	return readAll[oapi.Node](ctx, c, limit, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListAdminNodes(ctx, &oapi.ListAdminNodesParams{Limit: size, Cursor: cursor})
	})
}

func nodeTable(now time.Time, all ...oapi.Node) table {
	t := table{
		head: []string{"NAME", "READY", "STATUS", "HEALTH", "REACHABLE", "SKU", "FREE", "REGION", "AGE", "MESSAGE"},
		wide: []string{"OCCUPANCY", "ONBOARDING", "ID"},
	}
	for _, n := range all {
		status := string(n.Lifecycle)
		if n.Cordoned {
			status += ",cordoned"
		}
		t.add("node/"+n.Name,
			n.Name, truth(nodeReady(n)), status, string(n.Health), string(n.Reachability), n.Sku,
			fmt.Sprintf("%d/%d", n.Free, n.Slots), n.Region, age(now, bornAt(n.Id)), orDash(n.Message),
			string(n.Occupancy), string(n.Onboarding), n.Id.String())
	}
	return t
}

// nodeReady sums the axes up for one column, and only for a column. A node that
// is silent is neither ready nor not: nobody knows.
func nodeReady(n oapi.Node) oapi.ConditionStatus {
	switch {
	case n.Reachability != oapi.NodeReachabilityReachable || n.Health == oapi.NodeHealthUnknown:
		return oapi.ConditionStatusUnknown
	case n.Lifecycle == oapi.NodeLifecycleActive && n.Health != oapi.NodeHealthUnhealthy && !n.Cordoned:
		return oapi.ConditionStatusTrue
	default:
		return oapi.ConditionStatusFalse
	}
}

func (a *app) capacity(ctx context.Context, c *client) error {
	got, err := ask[oapi.CapacityList](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetNodeCapacity(ctx) })
	if err != nil {
		return err
	}
	t := table{head: []string{"SKU", "REGION", "NODES", "GPUS", "FREE"}}
	for _, p := range got.Value.Items {
		t.add("capacity/"+p.Sku+"/"+p.Region, p.Sku, p.Region, strconv.Itoa(p.Nodes), strconv.Itoa(p.Total), strconv.Itoa(p.Free))
	}
	return a.show(got.Raw, t)
}

func newGetPlans(a *app) *cobra.Command {
	limit := 50
	cmd := &cobra.Command{
		Use: "plans", Aliases: []string{"plan"}, Short: "What the loop decided, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			all, err := c.plans(cmd.Context(), limit)
			if err != nil {
				return err
			}
			a.moreThan(limit, all.More)
			t := table{head: []string{"NAME", "STATUS", "ACTIONS", "HELD", "AGE"}, wide: []string{"HASH"}}
			for _, p := range all.Items {
				t.add("plan/"+p.Id.String(), p.Id.String(), string(p.Status), strconv.Itoa(p.Actions), strconv.Itoa(p.Held),
					age(a.Clock.Now(), p.CreatedAt), p.Hash)
			}
			return a.show(all.Raw, t)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many; 0 for all")
	return cmd
}

func (c *client) plans(ctx context.Context, limit int) (list[oapi.Plan], error) {
	return readAll[oapi.Plan](ctx, c, limit, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		return c.ListPlans(ctx, &oapi.ListPlansParams{Limit: size, Cursor: cursor})
	})
}

func newGetRevisions(a *app) *cobra.Command {
	limit := 20
	cmd := &cobra.Command{
		Use: "revisions", Aliases: []string{"revision"}, Short: "What was read from the sources of desired state, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			all, err := readAll[oapi.Revision](cmd.Context(), c, limit, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
				return c.ListRevisions(ctx, &oapi.ListRevisionsParams{Limit: size, Cursor: cursor})
			})
			if err != nil {
				return err
			}
			a.moreThan(limit, all.More)
			return a.show(all.Raw, revisionTable(a.Clock.Now(), all.Items))
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many; 0 for all")
	return cmd
}

func revisionTable(now time.Time, all []oapi.Revision) table {
	t := table{head: []string{"REVISION", "CURRENT", "STATUS", "SOURCE", "COMMIT", "OBJECTS", "CHANGES", "AGE", "MESSAGE"}}
	for _, r := range all {
		current, message := "-", "-"
		if r.Current {
			current = symbolGood + " yes"
		}
		if len(r.Findings) > 0 {
			f := r.Findings[0]
			message = fmt.Sprintf("%s:%d:%d: %s", f.Path, f.Line, f.Column, f.Message)
			if more := len(r.Findings) - 1; more > 0 {
				message += fmt.Sprintf(" (and %d more)", more)
			}
		}
		number := strconv.FormatInt(r.Revision, 10)
		t.add("revision/"+number, number, current, string(r.Status), r.Source, r.Commit[:min(10, len(r.Commit))],
			strconv.Itoa(r.Objects), fmt.Sprintf("+%d ~%d -%d", r.Created, r.Changed, r.Deleted), age(now, r.CreatedAt), message)
	}
	return t
}

// asOperator is a hint in brackets, where there is somebody to be instead.
func (a *app) asOperator() string {
	if name := a.operatorProfile(); name != "" {
		return " (--profile " + name + ")"
	}
	return ""
}

// forbidden says that an answer is for operators, which is no reason to fail
// what can be told without it.
func forbidden(err error) bool {
	var f *failure
	return errors.As(err, &f) && f.Exit == exitDenied
}
