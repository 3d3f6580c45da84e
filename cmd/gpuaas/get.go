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
	get := group("get", "List things, or show one by KIND/NAME", newGetNodes(a), newGetSkus(a), allocations, newGetPlans(a), newGetRevisions(a),
		newGetSources(a), newDriftList(a, "drift"), newPolicyList(a, "policies"), newGetObjects(a))
	get.Example = "  gpuaas get nodes\n  gpuaas get node/gpu-07 -o yaml"
	get.ValidArgsFunction = a.completeThings(wordSource, wordRevision, wordPlan)
	get.RunE = a.named(a.getOne)
	return get
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
		t.add("node/"+n.Name,
			n.Name, truth(nodeReady(n)), nodeStatus(n), string(n.Health), string(n.Reachability), n.Sku,
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
	var origin, source, status string
	cmd := &cobra.Command{
		Use: "plans", Aliases: []string{"plan"}, Short: "What the loop decided and what changes would do, newest first", Args: cobra.NoArgs,
		Example: "  gpuaas get plans --origin change --status proposed",
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			all, err := c.plans(cmd.Context(), limit, oapi.ListPlansParams{
				Origin: set(oapi.ListPlansParamsOrigin(origin)), Source: set(source), Status: set(oapi.ListPlansParamsStatus(status)),
			})
			if err != nil {
				return err
			}
			a.moreThan(limit, all.More)
			return a.show(all.Raw, planTable(a.Clock.Now(), all.Items))
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many; 0 for all")
	cmd.Flags().StringVar(&origin, "origin", "", "only plans of the loop, or only those of a change")
	cmd.Flags().StringVar(&source, "source", "", "only of this source")
	cmd.Flags().StringVar(&status, "status", "", "only in this state: proposed, approved, applied, stale, rejected")
	return cmd
}

func planTable(now time.Time, all []oapi.Plan) table {
	t := table{head: []string{"NAME", "STATUS", "ACTIONS", "HELD", "AGE", "SOURCE", "COMMIT", "SUMMARY"}, wide: []string{"PULL", "AUTHOR", "DECIDED BY", "HASH"}}
	for _, p := range all {
		pull := "-"
		if p.Pull != nil {
			pull = strconv.Itoa(*p.Pull)
		}
		t.add("plan/"+p.Id.String(), p.Id.String(), string(p.Status), strconv.Itoa(p.Actions), strconv.Itoa(p.Held), age(now, p.CreatedAt),
			cell(deref(p.Source)), short(deref(p.Commit)), cell(deref(p.Summary)), pull, cell(deref(p.Author)), cell(deref(p.DecidedBy)), p.Hash)
	}
	return t
}

func (c *client) plans(ctx context.Context, limit int, which oapi.ListPlansParams) (list[oapi.Plan], error) {
	return readAll[oapi.Plan](ctx, c, limit, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		which.Limit, which.Cursor = size, cursor
		return c.ListPlans(ctx, &which)
	})
}

func newGetRevisions(a *app) *cobra.Command {
	limit := 20
	var source, status string
	cmd := &cobra.Command{
		Use: "revisions", Aliases: []string{"revision"}, Short: "What was read from the sources of desired state, newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			all, err := c.revisions(cmd.Context(), limit, oapi.ListRevisionsParams{Source: set(source), Status: set(oapi.ListRevisionsParamsStatus(status))})
			if err != nil {
				return err
			}
			a.moreThan(limit, all.More)
			return a.show(all.Raw, revisionTable(a.Clock.Now(), all.Items))
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "at most so many; 0 for all")
	cmd.Flags().StringVar(&source, "source", "", "only of this source")
	cmd.Flags().StringVar(&status, "status", "", "only in this state: applied, invalid, waiting_approval, rejected")
	return cmd
}

func (c *client) revisions(ctx context.Context, limit int, which oapi.ListRevisionsParams) (list[oapi.Revision], error) {
	return readAll[oapi.Revision](ctx, c, limit, func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
		which.Limit, which.Cursor = size, cursor
		return c.ListRevisions(ctx, &which)
	})
}

func revisionTable(now time.Time, all []oapi.Revision) table {
	t := table{
		head: []string{"REVISION", "CURRENT", "STATUS", "SOURCE", "COMMIT", "OBJECTS", "CHANGES", "AGE", "MESSAGE"},
		wide: []string{"AUTHOR", "SIGNER", "COMMIT MESSAGE"},
	}
	for _, r := range all {
		current := "-"
		if r.Current {
			current = symbolGood + " yes"
		}
		number := itoa(r.Revision)
		t.add("revision/"+number, number, current, string(r.Status), r.Source, short(r.Commit),
			strconv.Itoa(r.Objects), fmt.Sprintf("+%d ~%d -%d", r.Created, r.Changed, r.Deleted), age(now, r.CreatedAt), cell(verdictOf(r)),
			cell(deref(r.Author)), cell(deref(r.Signer)), cell(deref(r.Message)))
	}
	return t
}

// verdictOf says why a revision is not applied: its first finding, or its first wait.
func verdictOf(r oapi.Revision) string {
	text, more := "", 0
	switch waits := deref(r.Waits); {
	case len(r.Findings) > 0:
		text, more = findingText(r.Findings[0]), len(r.Findings)-1
	case len(waits) > 0 && (r.Status == oapi.RevisionStatusWaitingApproval || r.Status == oapi.RevisionStatusPlanned):
		text, more = waits[0].Message, len(waits)-1
	}
	if more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

func findingText(f oapi.Finding) string {
	return fmt.Sprintf("%s:%d:%d: %s", f.Path, f.Line, f.Column, f.Message)
}

// named completes a group of commands that also takes KIND/NAME.
func (a *app) named(do func(ctx context.Context, c *client, t thing) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 || !strings.Contains(args[0], "/") {
			return overview(cmd, args)
		}
		t, err := parseThing(args[0])
		if err != nil {
			return err
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, t)
	}
}

// getOne shows what KIND/NAME names; of a declared object the declaration.
func (a *app) getOne(ctx context.Context, c *client, t thing) error {
	switch t.word {
	case wordSource:
		got, err := c.source(ctx, t.name)
		if err != nil {
			return err
		}
		return a.show(got.Raw, sourceTable(a, got.Value))
	case wordRevision:
		got, err := c.revision(ctx, t.name)
		if err != nil {
			return err
		}
		return a.show(got.Raw, revisionTable(a.Clock.Now(), []oapi.Revision{got.Value}))
	case wordPlan:
		got, err := c.planNamed(ctx, t.name)
		if err != nil {
			return err
		}
		return a.showPlan(got)
	case wordDrift:
		return noSingleDrift()
	}
	t, err := c.placed(ctx, t)
	if err != nil {
		return err
	}
	got, err := c.desired(ctx, t)
	if err != nil {
		return err
	}
	return a.show(got.Raw, objectTable(a, got.Value))
}

func newGetObjects(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use: "objects KIND", Aliases: []string{"object"}, Short: "All objects of a kind as they are declared", Args: cobra.ExactArgs(1),
		Example: "  gpuaas get objects policy", ValidArgs: kindWords(),
	}
	return lists(a, cmd, func(_ context.Context, c *client, args []string) (pager, error) {
		kind, err := kindNamed(args[0])
		return func(ctx context.Context, size *int, cursor *string) (*http.Response, error) {
			return c.ListDesired(ctx, kind, &oapi.ListDesiredParams{Limit: size, Cursor: cursor})
		}, err
	}, objectTable)
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
