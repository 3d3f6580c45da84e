package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// describeObject tells of a declared object what is the same for all kinds.
func (a *app) describeObject(ctx context.Context, c *client, t thing) error {
	t, err := c.placed(ctx, t)
	if err != nil {
		return err
	}
	found, err := c.desired(ctx, t)
	if err != nil {
		return err
	}
	m := found.Value.Metadata
	s := deref(found.Value.Status)
	facts := [][2]string{
		{"Name", m.Name},
		{"Kind", string(found.Value.Kind)},
		{"ID", m.Uid.String()},
		{"Project", deref(m.Scope)},
		{"Owner", string(m.Source.Owner)},
		{"Declared in", origin(found.Value)},
		{"Generation", itoa(m.Generation)},
		{"Version", m.ResourceVersion},
		{"Sync, health", strings.Trim(string(s.Sync)+", "+string(s.Health), ", ")},
		{"Suspended", suspensionOf(m.Suspended)},
		{"Adoption", adoptionOf(m.Adopt)},
		{"Annotations", pairs(m.Annotations)},
		{"Labels", pairs(m.Labels)},
	}
	spec, err := encode(found.Value.Spec)
	if err != nil {
		return err
	}
	text, err := toYAML(spec)
	if err != nil {
		return fmt.Errorf("encoding spec: %w", err)
	}
	declared := table{}
	for line := range strings.Lines(string(text)) {
		declared.add("", strings.TrimRight(line, "\n"))
	}
	return a.describe(strings.ToLower(t.String()), map[string]json.RawMessage{"desired": found.Raw},
		section{facts: facts}, section{title: "Conditions:", table: conditionTable(s.Conditions)}, section{title: "Spec:", table: declared})
}

func adoptionOf(a *oapi.Adoption) string {
	if a == nil {
		return ""
	}
	return "the next revision of source " + a.Source + " may take it over, until " + stamp(a.Until)
}

func (c *client) revision(ctx context.Context, name string) (answer[oapi.Revision], error) {
	n, err := strconv.ParseInt(name, 10, 64)
	if err != nil || n < 1 {
		f := usage("%q is no number of a revision", name)
		f.Try = "gpuaas get revisions"
		return answer[oapi.Revision]{}, f
	}
	return ask[oapi.Revision](ctx, c, func(ctx context.Context) (*http.Response, error) { return c.GetRevision(ctx, n) })
}

func (a *app) describeRevision(ctx context.Context, c *client, name string) error {
	_, name, _ = cutLast(name)
	found, err := c.revision(ctx, name)
	if err != nil {
		return err
	}
	r := found.Value
	facts := [][2]string{
		{"Revision", itoa(r.Revision)},
		{"Status", string(r.Status)},
		{"Current", strconv.FormatBool(r.Current)},
		{"Source", r.Source},
		{"Repository", cell(deref(r.Repository))},
		{"Commit", r.Commit},
		{"Before", deref(r.Parent)},
		{"Author", cell(deref(r.Author))},
		{"Signer", cell(deref(r.Signer))},
		{"Message", cell(deref(r.Message))},
		{"Committed", stamp(deref(r.CommittedAt))},
		{"Seen", stamp(r.CreatedAt)},
		{"Objects", fmt.Sprintf("%d: %d created, %d changed, %d deleted, %d adopted", r.Objects, r.Created, r.Changed, r.Deleted, deref(r.Adopted))},
	}
	if r.PlanId != nil {
		facts = append(facts, [2]string{"Plan", "plan/" + r.PlanId.String()})
	}
	return a.describe("revision/"+itoa(r.Revision), map[string]json.RawMessage{"revision": found.Raw},
		section{facts: facts},
		section{title: "Findings:", table: findingTable(r.Findings)},
		section{title: "Waits for:", table: waitTable(deref(r.Waits))})
}

// cutLast is strings.Cut at the last slash; without one, all is behind it.
func cutLast(text string) (before, after string, found bool) {
	at := strings.LastIndexByte(text, '/')
	if at < 0 {
		return "", text, false
	}
	return text[:at], text[at+1:], true
}

func findingTable(all []oapi.Finding) table {
	t := table{head: []string{"PLACE", "OBJECT", "FIELD", "MESSAGE", "EXPECTED"}}
	for _, f := range all {
		t.add("", cell(fmt.Sprintf("%s:%d:%d", f.Path, f.Line, f.Column)), cell(deref(f.Object)), cell(deref(f.Field)), cell(f.Message), cell(deref(f.Expected)))
	}
	return t
}

func waitTable(all []oapi.Wait) table {
	t := table{head: []string{"REASON", "OBJECTS", "MESSAGE"}}
	for _, w := range all {
		t.add("", string(w.Reason), cell(some(w.Objects)), cell(w.Message))
	}
	return t
}

// some of a list: what fits beside other columns.
func some(all []string) string {
	const most = 5
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return strings.Join(all[:most], ", ") + fmt.Sprintf(" and %d more", len(all)-most)
}

// planNamed reads a plan by what a person calls it.
func (c *client) planNamed(ctx context.Context, name string) (answer[oapi.PlanDetail], error) {
	id, ok := planRef(name)
	if !ok {
		f := usage("%q is no id of a plan", name)
		f.Try = "gpuaas get plans"
		return answer[oapi.PlanDetail]{}, f
	}
	return c.plan(ctx, id)
}

func (a *app) describePlan(ctx context.Context, c *client, name string) error {
	found, err := c.planNamed(ctx, name)
	if err != nil {
		return err
	}
	p := found.Value
	if p.Change != nil && !a.data() && a.format() != "name" {
		if err := a.showPlan(found); err != nil {
			return err
		}
		_, err := fmt.Fprint(a.Out, "\n")
		if err != nil {
			return fmt.Errorf("writing result: %w", err)
		}
	}
	facts := [][2]string{
		{"Plan", p.Id.String()},
		{"Origin", string(deref(p.Origin))},
		{"Status", string(p.Status)},
		{"Hash", p.Hash},
		{"Made", stamp(p.CreatedAt)},
		{"Source", cell(deref(p.Source))},
		{"Commit", deref(p.Commit)},
		{"Author", cell(deref(p.Author))},
		{"Decided", decisionOf(p)},
		{"Applied", stamp(deref(p.AppliedAt))},
	}
	sections := []section{{facts: facts}}
	if p.Change == nil {
		sections = append(sections, section{title: "Steps:", table: stepTable(p.Steps)})
	}
	return a.describe("plan/"+p.Id.String(), map[string]json.RawMessage{"plan": found.Raw}, sections...)
}

func decisionOf(p oapi.PlanDetail) string {
	if p.DecidedBy == nil {
		return ""
	}
	return cell(strings.TrimSuffix(*p.DecidedBy+" at "+stamp(deref(p.DecidedAt))+": "+deref(p.Decision), ": "))
}

func stepTable(all []oapi.PlanAction) table {
	t := table{head: []string{"KIND", "OBJECT", "VERB", "FENCE", "GENERATION", "REASON", "HELD"}, wide: []string{"NODE"}}
	for _, s := range all {
		t.add("", s.Kind, s.ObjectId.String(), strings.TrimSpace(s.Verb+" "+s.Event), itoa(s.Fence), itoa(s.Generation), cell(s.Reason), cell(s.Held), nodeOf(s.NodeId))
	}
	return t
}

func nodeOf(id *uuid.UUID) string {
	if id == nil {
		return "-"
	}
	return id.String()
}
