package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/internal/errs"
)

func newDescribe(a *app) *cobra.Command {
	one := func(use string, aliases []string, short string, do func(ctx context.Context, c *client, name string) error) *cobra.Command {
		return &cobra.Command{
			Use: use + " NAME", Aliases: aliases, Short: short, Args: cobra.ExactArgs(1),
			RunE: func(cmd *cobra.Command, args []string) error {
				c, err := a.client()
				if err != nil {
					return err
				}
				return do(cmd.Context(), c, args[0])
			},
		}
	}
	describe := group("describe", "Everything about one thing, and why it is so",
		one("alloc", []string{"allocation"}, "An allocation: conditions, timeline, the loop's reasons", a.describeAllocation),
		one("node", nil, "A machine: its GPUs, slots, where it is declared, the loop's reasons", a.describeNode),
		one("sku", nil, "A SKU: price, capacity, where it is declared", a.describeSku),
		one("source", []string{"git-source"}, "A Git source: conditions, what it stands on, its revisions", a.describeSource),
		one("revision", []string{"rev"}, "A revision: author, findings with file and line, what it waits for", a.describeRevision),
		one("plan", nil, "A plan: what the loop decided, or what a change would do", a.describePlan))
	describe.Example = "  gpuaas describe node gpu-07\n  gpuaas describe revision/12"
	describe.ValidArgsFunction = a.completeThings(wordSource, wordRevision, wordPlan)
	describe.RunE = a.named(a.describeThing)
	return describe
}

// section is a part of a description: a title over facts or over a table.
type section struct {
	title string
	facts [][2]string
	table table
}

// describe prints documents of the API as one, or sections for people.
func (a *app) describe(name string, parts map[string]json.RawMessage, sections ...section) error {
	if a.data() || a.format() == "name" {
		document, err := raw(parts)
		if err != nil {
			return err
		}
		return a.show(document, table{names: []string{name}})
	}
	return a.write(a.sections(sections...))
}

// sections is a description as people read it.
func (a *app) sections(sections ...section) string {
	var b strings.Builder
	for i, s := range sections {
		if s.title != "" {
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(s.title + "\n")
		}
		for _, f := range s.facts {
			fmt.Fprintf(&b, "%-13s%s\n", f[0], orDash(f[1]))
		}
		switch {
		case len(s.table.rows) > 0:
			for line := range strings.Lines(a.render(s.table)) {
				b.WriteString("  " + line)
			}
		case len(s.facts) == 0:
			b.WriteString("  none\n")
		}
	}
	return b.String()
}

func (a *app) describeAllocation(ctx context.Context, c *client, name string) error {
	found, err := c.find(ctx, name)
	if err != nil {
		return err
	}
	one := found.Value
	timeline, err := ask[oapi.Timeline](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.GetAllocationTimeline(ctx, one.Id, nil, c.inProject)
	})
	if err != nil {
		return err
	}
	reasons, err := a.reasons(ctx, c, one.CreatedAt, func(s oapi.PlanAction) bool { return s.ObjectId == one.Id })
	if err != nil {
		return err
	}
	sync, health := axes(one)
	facts := [][2]string{
		{"Name", one.Name},
		{"ID", one.Id.String()},
		{"Status", string(one.Status) + " since " + stamp(one.StatusAt)},
		{"Sync, health", sync + ", " + health},
		{"SKU", whatOf(one)},
		{"Login", one.Login},
		{"Node", one.NodeId.String()},
		{"Price", amount(one.Price) + " per GPU and hour"},
		{"Cost", amount(one.Cost) + " so far"},
		{"Created", stamp(one.CreatedAt)},
		{"Active", stamp(deref(one.ActiveAt))},
		{"Ended", stamp(deref(one.EndedAt))},
		{"Expires", stamp(deref(one.ExpiresAt))},
		{"Reason", strings.TrimSpace(deref(one.Reason) + " " + deref(one.Message))},
	}
	history := table{head: []string{"AT", "EVENT", "FROM", "TO", "REASON", "MESSAGE"}}
	for _, e := range timeline.Value.Items {
		history.add("", stamp(e.At), e.Event, orDash(e.From), string(e.To), orDash(e.Reason), orDash(e.Message))
	}
	return a.describe("allocation/"+one.Name,
		map[string]json.RawMessage{"allocation": found.Raw, "timeline": timeline.Raw, "plans": reasons.raw},
		slices.Concat([]section{{facts: facts}}, pendingSections(one.Pending), []section{
			{title: "Conditions:", table: conditionTable(one.Conditions)},
			{title: "Timeline:", table: history},
			{title: "Why (plans of the loop):", table: reasons.table, facts: reasons.note},
		})...)
}

func conditionTable(all []oapi.Condition) table {
	t := table{head: []string{"TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"}}
	for _, c := range all {
		t.add("", c.Type, truth(c.Status), orDash(c.Reason), stamp(c.LastTransitionTime), orDash(c.Message))
	}
	return t
}

func (a *app) describeNode(ctx context.Context, c *client, name string) error {
	name = strings.TrimPrefix(name, "node/")
	found, err := ask[oapi.Node](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetAdminNode(ctx, name) })
	if err != nil {
		return err
	}
	n := found.Value
	declared, err := c.declared(ctx, oapi.KindNode, name)
	if err != nil {
		return err
	}
	// Of a node's life only the recent part is of use, and only that is affordable.
	reasons, err := a.reasons(ctx, c, a.Clock.Now().Add(-24*time.Hour), func(s oapi.PlanAction) bool {
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
		{"SSH", orDash(deref(n.Address))},
		{"Agent", orDash(deref(n.AgentVersion))},
		{"Last report", stamp(deref(n.LastReportAt))},
		{"Declared in", origin(declared.Value)},
		{"Suspended", suspensionOf(declared.Value.Metadata.Suspended)},
		{"Message", n.Message},
	}
	conditions := deref(n.Conditions)
	if n.Conditions == nil {
		conditions = deref(declared.Value.Status).Conditions
	}
	return a.describe("node/"+n.Name,
		map[string]json.RawMessage{"node": found.Raw, "desired": orNull(declared.Raw), "plans": reasons.raw},
		slices.Concat([]section{
			{facts: facts},
			{title: "Conditions:", table: conditionTable(conditions)},
		}, nextSection(a.nodeAdvice(n)), []section{
			{title: "Holds:", table: holdTable(deref(n.Holds))},
			{title: "GPUs and slots:", table: gpuTable(deref(n.Gpus))},
			{title: "Health:", table: healthTable(deref(n.HealthReports))},
			{title: "Last tasks:", table: taskTable(deref(n.Tasks))},
			{title: "Certificates:", table: certificateTable(deref(n.Certificates))},
			{title: "Why (plans of the loop, last day):", table: reasons.table, facts: reasons.note},
		})...)
}

func (a *app) describeSku(ctx context.Context, c *client, name string) error {
	name = strings.TrimPrefix(name, "sku/")
	found, err := ask[oapi.Sku](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetSku(ctx, name) })
	if err != nil {
		return err
	}
	s := found.Value
	declared, err := c.declared(ctx, oapi.KindSKU, name)
	if err != nil {
		return err
	}
	facts := [][2]string{
		{"Name", s.Name},
		{"ID", s.Id.String()},
		{"Title", s.DisplayName},
		{"GPU", fmt.Sprintf("%s, %d GiB", s.GpuModel, s.MemoryGib)},
		{"Isolation", string(s.Isolation)},
		{"Price", amount(s.Price) + " per GPU and hour"},
		{"Free", strconv.Itoa(s.Free)},
		{"Most", fmt.Sprintf("%d in one allocation", s.MaxGpus)},
		{"Declared in", origin(declared.Value)},
		{"Suspended", suspensionOf(declared.Value.Metadata.Suspended)},
	}
	regions := table{head: []string{"REGION", "GPUS", "FREE"}}
	for _, r := range s.Regions {
		regions.add("", r.Region, strconv.Itoa(r.Total), strconv.Itoa(r.Free))
	}
	return a.describe("sku/"+s.Name, map[string]json.RawMessage{"sku": found.Raw, "desired": orNull(declared.Raw)},
		section{facts: facts}, section{title: "Regions:", table: regions})
}

// declared reads the declaration behind an object, when one may.
func (c *client) declared(ctx context.Context, kind oapi.Kind, name string) (answer[oapi.DesiredObject], error) {
	got, err := ask[oapi.DesiredObject](ctx, c, func(ctx context.Context) (*http.Response, error) {
		return c.GetDesired(ctx, kind, name, nil)
	})
	if forbidden(err) || codeOf(err) == errs.NotFound {
		return answer[oapi.DesiredObject]{}, nil
	}
	return got, err
}

// describeThing is describe with KIND/NAME.
func (a *app) describeThing(ctx context.Context, c *client, t thing) error {
	do, ok := map[string]func(context.Context, *client, string) error{
		string(oapi.KindNode): a.describeNode, string(oapi.KindSKU): a.describeSku, string(oapi.KindAllocation): a.describeAllocation,
		wordSource: a.describeSource, wordRevision: a.describeRevision, wordPlan: a.describePlan,
		wordDrift: func(context.Context, *client, string) error { return noSingleDrift() },
	}[t.word]
	if ok && t.scope == "" {
		return do(ctx, c, t.name)
	}
	return a.describeObject(ctx, c, t)
}

// origin is where one edits an object.
func origin(o oapi.DesiredObject) string {
	s := o.Metadata.Source
	if s.Path == nil {
		return string(s.Owner)
	}
	return fmt.Sprintf("%s:%d (generation %d, commit %.10s)", *s.Path, deref(s.Line), o.Metadata.Generation, deref(s.Commit))
}

func orNull(r json.RawMessage) json.RawMessage {
	if len(r) == 0 {
		return json.RawMessage("null")
	}
	return r
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// why is what plans say about one object.
type why struct {
	table table
	raw   json.RawMessage
	note  [][2]string
	steps []oapi.PlanAction
}

// Plans cannot be asked for by object, so the newest are read one by one.
const plansRead = 40

// reasons collects the steps of recent plans that are about something. They are
// for operators: others are told so, and nothing fails.
func (a *app) reasons(ctx context.Context, c *client, since time.Time, about func(oapi.PlanAction) bool) (why, error) {
	w := why{table: table{head: []string{"AT", "VERB", "FENCE", "REASON", "PLAN"}}}
	found := []json.RawMessage{}
	plans, err := c.plans(ctx, plansRead, oapi.ListPlansParams{Origin: set(oapi.ListPlansParamsOriginLoop)})
	if forbidden(err) {
		w.raw, w.note = json.RawMessage("null"), [][2]string{{"", "  The loop's plans are for operators" + a.asOperator() + "."}}
		return w, nil
	}
	if err != nil {
		return why{}, err
	}
	for _, p := range plans.Items {
		if p.CreatedAt.Before(since) {
			break // newest first
		}
		plan, err := c.plan(ctx, p.Id)
		if err != nil {
			return why{}, err
		}
		matched := false
		for _, s := range plan.Value.Steps {
			if !about(s) {
				continue
			}
			matched = true
			w.steps = append(w.steps, s)
			reason := s.Reason
			if s.Held != "" {
				reason += "; held back: " + s.Held
			}
			verb := s.Verb
			if s.Event != "" {
				verb = strings.TrimSpace(verb + " " + s.Event)
			}
			w.table.add("", stamp(p.CreatedAt), verb, strconv.FormatInt(s.Fence, 10), reason, p.Id.String())
		}
		if matched {
			found = append(found, plan.Raw)
		}
	}
	w.raw, err = encode(found)
	return w, err
}

func (c *client) plan(ctx context.Context, id uuid.UUID) (answer[oapi.PlanDetail], error) {
	return ask[oapi.PlanDetail](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetPlan(ctx, id) })
}
