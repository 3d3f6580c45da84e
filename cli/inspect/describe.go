package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/alloc"
	"github.com/gpuaas/gpuaas/cli/change"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
)

func NewDescribe(a *output.Console) *cobra.Command {
	one := func(use string, aliases []string, short string, do func(ctx context.Context, a *output.Console, c *client.Client, name string) error) *cobra.Command {
		return &cobra.Command{
			Use: use + " NAME", Aliases: aliases, Short: short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				c, err := client.Connect(a)
				if err != nil {
					return err
				}
				return do(cmd.Context(), a, c, args[0])
			},
		}
	}
	describe := output.Group("describe", "Show a resource in detail",
		one("alloc", []string{"allocation"}, "Show an allocation in detail", describeAllocation),
		one("node", nil, "Show a node in detail", describeNode),
		one("sku", nil, "Show an SKU in detail", describeSku),
		one("source", []string{"git-source"}, "Show a Git source in detail", change.DescribeSource),
		one("revision", []string{"rev"}, "Show a revision in detail", change.DescribeRevision),
		one("plan", nil, "Show a plan in detail", change.DescribePlan))
	describe.Example = "  gpuaas describe node gpu-07\n  gpuaas describe revision/12"
	describe.ValidArgsFunction = client.CompleteResources(a, client.WordSource, client.WordRevision, client.WordPlan)
	describe.RunE = named(a, describeResource)
	return describe
}

func describeAllocation(ctx context.Context, a *output.Console, c *client.Client, name string) error {
	found, err := c.Find(ctx, name)
	if err != nil {
		return err
	}
	one := found.Value
	timeline, err := client.Send[oapi.Timeline](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.GetAllocationTimeline(ctx, one.Id, nil, c.InProject)
	})
	if err != nil {
		return err
	}
	reasons, err := Reasons(ctx, a, c, one.CreatedAt, func(s oapi.PlanAction) bool { return s.ObjectId == one.Id })
	if err != nil {
		return err
	}
	sync, health := alloc.Axes(one)
	node := ""
	if one.NodeId != nil {
		node = one.NodeId.String()
	}
	facts := [][2]string{
		{"Name", one.Name},
		{"ID", one.Id.String()},
		{"Status", string(one.Status) + " since " + output.FormatTime(one.StatusAt)},
		{"Sync, health", sync + ", " + health},
		{"SKU", alloc.WhatOf(one)},
		{"Login", one.Login},
		{"Node", node},
		{"Price", output.Amount(one.Price) + " per GPU and hour"},
		{"Cost", output.Amount(one.Cost) + " so far"},
		{"Created", output.FormatTime(one.CreatedAt)},
		{"Active", output.FormatTime(output.ValueOrZero(one.ActiveAt))},
		{"Ended", output.FormatTime(output.ValueOrZero(one.EndedAt))},
		{"Expires", output.FormatTime(output.ValueOrZero(one.ExpiresAt))},
		{"Reason", strings.TrimSpace(output.ValueOrZero(one.Reason) + " " + output.ValueOrZero(one.Message))},
	}
	history := output.Table{Head: []string{"AT", "EVENT", "FROM", "TO", "REASON", "MESSAGE"}}
	for _, e := range timeline.Value.Items {
		history.Add("", output.FormatTime(e.OccurredAt), e.Event, output.OrDash(e.From), string(e.To), output.OrDash(e.Reason), output.OrDash(e.Message))
	}
	return a.Describe("allocation/"+one.Name,
		map[string]json.RawMessage{"allocation": found.Raw, "timeline": timeline.Raw, "plans": reasons.raw},
		slices.Concat([]output.Section{{Fields: facts}}, alloc.PendingSections(one.Pending), []output.Section{
			{Title: "Conditions:", Table: output.ConditionTable(one.Conditions)},
			{Title: "Timeline:", Table: history},
			{Title: "Why (plans of the loop):", Table: reasons.table, Fields: reasons.note},
		})...)
}

func describeNode(ctx context.Context, a *output.Console, c *client.Client, name string) error {
	name = strings.TrimPrefix(name, "node/")
	found, err := client.Send[oapi.Node](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetAdminNode(ctx, name) })
	if err != nil {
		return err
	}
	n := found.Value
	declared, err := declared(ctx, c, oapi.KindNode, name)
	if err != nil {
		return err
	}
	// Of a node's life only the recent part is of use, and only that is affordable.
	reasons, err := Reasons(ctx, a, c, a.Clock.Now().Add(-24*time.Hour), func(s oapi.PlanAction) bool {
		return s.ObjectId == n.Id || s.NodeId != nil && *s.NodeId == n.Id
	})
	if err != nil {
		return err
	}
	facts := [][2]string{
		{"Name", n.Name},
		{"ID", n.Id.String()},
		{"Lifecycle", string(n.Lifecycle)},
		{"Health", string(n.Health)},
		{"Reachable", string(n.Reachability)},
		{"Occupancy", fmt.Sprintf("%s: %d of %d slots free, %d in quarantine", n.Occupancy, n.Free, n.Slots, n.Quarantined)},
		{"SKU", n.Sku},
		{"Region", n.Region},
		{"Onboarding", string(n.Onboarding)},
		{"SSH", output.OrDash(output.ValueOrZero(n.Address))},
		{"Agent", agentOf(n)},
		{"Domain", output.OrDash(output.ValueOrZero(n.FailureDomain))},
		{"Management", output.OrDash(output.ValueOrZero(n.ManagementAddress))},
		{"Created", output.FormatTime(n.CreatedAt)},
		{"Retires", strings.TrimSpace(output.ExpiryText(n.RetiresAt) + " " + output.ValueOrZero(n.RetiresReason))},
		{"Hardware", serialsOf(n.HardwareSerials)},
		{"Last report", output.FormatTime(output.ValueOrZero(n.LastReportAt))},
		{"Source", origin(declared.Value)},
		{"Suspended", change.SuspensionOf(declared.Value.Metadata.Suspended)},
		{"Message", n.Message},
	}
	conditions := output.ValueOrZero(n.Conditions)
	if n.Conditions == nil {
		conditions = output.ConditionsOf(output.ValueOrZero(declared.Value.Status))
	}
	return a.Describe("node/"+n.Name,
		map[string]json.RawMessage{"node": found.Raw, "desired": output.OrNull(declared.Raw), "plans": reasons.raw},
		slices.Concat([]output.Section{
			{Fields: facts},
			{Title: "Conditions:", Table: output.ConditionTable(conditions)},
		}, nextSection(nodeAdvice(a, n)), []output.Section{
			{Title: "Holds:", Table: holdTable(output.ValueOrZero(n.Holds))},
			{Title: "GPUs and slots:", Table: gpuTable(output.ValueOrZero(n.Gpus))},
			{Title: "Health:", Table: healthTable(output.ValueOrZero(n.HealthReports))},
			{Title: "Last tasks:", Table: taskTable(output.ValueOrZero(n.Tasks))},
			{Title: "Certificates:", Table: certificateTable(output.ValueOrZero(n.Certificates))},
			{Title: "Why (plans of the loop, last day):", Table: reasons.table, Fields: reasons.note},
		})...)
}

func describeSku(ctx context.Context, a *output.Console, c *client.Client, name string) error {
	name = strings.TrimPrefix(name, "sku/")
	found, err := client.Send[oapi.Sku](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetSku(ctx, name) })
	if err != nil {
		return err
	}
	s := found.Value
	declared, err := declared(ctx, c, oapi.KindSKU, name)
	if err != nil {
		return err
	}
	facts := [][2]string{
		{"Name", s.Name},
		{"ID", s.Id.String()},
		{"Title", s.DisplayName},
		{"GPU", fmt.Sprintf("%s, %d GiB", s.GpuModel, s.MemoryGib)},
		{"Isolation", string(s.Isolation)},
		{"Price", output.Amount(s.Price) + " per GPU and hour"},
		{"Free", strconv.Itoa(s.Free)},
		{"Most", fmt.Sprintf("%d in one allocation", s.MaxGpus)},
		{"Source", origin(declared.Value)},
		{"Suspended", change.SuspensionOf(declared.Value.Metadata.Suspended)},
	}
	regions := output.Table{Head: []string{"REGION", "GPUS", "FREE"}}
	for _, r := range s.Regions {
		regions.Add("", r.Region, strconv.Itoa(r.Total), strconv.Itoa(r.Free))
	}
	return a.Describe("sku/"+s.Name, map[string]json.RawMessage{"sku": found.Raw, "desired": output.OrNull(declared.Raw)},
		output.Section{Fields: facts}, output.Section{Title: "Regions:", Table: regions})
}

// declared reads the declaration behind an object, when one may.
func declared(ctx context.Context, c *client.Client, kind oapi.Kind, name string) (client.Response[oapi.DesiredObject], error) {
	got, err := client.Send[oapi.DesiredObject](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.GetDesired(ctx, kind, name, nil)
	})
	if client.IsForbidden(err) || client.CodeOf(err) == errs.NotFound {
		return client.Response[oapi.DesiredObject]{}, nil
	}
	return got, err
}

// describeResource is describe with KIND/NAME.
func describeResource(ctx context.Context, a *output.Console, c *client.Client, t client.ResourceRef) error {
	do, ok := map[string]func(context.Context, *output.Console, *client.Client, string) error{
		string(oapi.KindNode): describeNode, string(oapi.KindSKU): describeSku, string(oapi.KindAllocation): describeAllocation,
		client.WordSource: change.DescribeSource, client.WordRevision: change.DescribeRevision, client.WordPlan: change.DescribePlan,
		client.WordDrift: func(context.Context, *output.Console, *client.Client, string) error { return noSingleDrift() },
	}[t.KindName]
	if ok && t.Scope == "" {
		return do(ctx, a, c, t.Name)
	}
	return describeObject(ctx, a, c, t)
}

// origin returns the file or command with which an object is edited.
func origin(o oapi.DesiredObject) string {
	s := o.Metadata.Source
	if s.Path == nil {
		return string(s.Owner)
	}
	return fmt.Sprintf("%s:%d (generation %d, commit %.10s)", *s.Path, output.ValueOrZero(s.Line), o.Metadata.Generation, output.ValueOrZero(s.Commit))
}

// why is a plan's reason about one object.
type why struct {
	table output.Table
	raw   json.RawMessage
	note  [][2]string
	Steps []oapi.PlanAction
}

// plansRead limits the plans that are read: the API cannot filter plans by object.
const plansRead = 40

// Reasons returns the steps of recent plans about an object. Only operators may read them: for
// other users Reasons prints a note and does not fail.
func Reasons(ctx context.Context, a *output.Console, c *client.Client, since time.Time, about func(oapi.PlanAction) bool) (why, error) {
	w := why{table: output.Table{Head: []string{"AT", "VERB", "FENCE", "REASON", "PLAN"}}}
	found := []json.RawMessage{}
	plans, err := change.Plans(ctx, c, plansRead, oapi.ListPlansParams{Origin: output.PointerOrNil(oapi.ListPlansParamsOriginLoop)})
	if client.IsForbidden(err) {
		w.raw, w.note = json.RawMessage("null"), [][2]string{{"", "  The loop's plans are for operators" + client.OperatorHint(a) + "."}}
		return w, nil
	}
	if err != nil {
		return why{}, err
	}
	for _, p := range plans.Items {
		if p.CreatedAt.Before(since) {
			break // newest first
		}
		plan, err := change.Plan(ctx, c, p.Id)
		if err != nil {
			return why{}, err
		}
		matched := false
		for _, s := range plan.Value.Steps {
			if !about(s) {
				continue
			}
			matched = true
			w.Steps = append(w.Steps, s)
			reason := s.Reason
			if s.Blocked != "" {
				reason += "; blocked: " + s.Blocked
			}
			verb := s.Verb
			if s.Event != "" {
				verb = strings.TrimSpace(verb + " " + s.Event)
			}
			w.table.Add("", output.FormatTime(p.CreatedAt), verb, strconv.FormatInt(s.Fence, 10), reason, p.Id.String())
		}
		if matched {
			found = append(found, plan.Raw)
		}
	}
	w.raw, err = output.Encode(found)
	return w, err
}
