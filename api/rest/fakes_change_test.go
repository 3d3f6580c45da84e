package rest_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/reconciler"
)

// archive is where declarations are kept: one node of Git's, one source, one plan.
type archive struct {
	people *people

	mu    sync.Mutex
	asked []any         // what came of changes
	begun chan struct{} // a proposal is at work, and waits for done
	done  chan struct{}
}

func (d *archive) note(what any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, what)
}

// last is what was asked for last.
func (d *archive) last() any {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.asked) == 0 {
		return nil
	}
	return d.asked[len(d.asked)-1]
}

var declared = desired.Object{Kind: desired.KindNode, Name: "sim-1", UID: ids.New[ids.Object](), Generation: 2, ResourceVersion: 5, Spec: json.RawMessage(`{"sku":"h100-sxm"}`), Source: desired.Source{Owner: desired.OwnerGit, Path: "nodes.cue", Line: 12}}

// isDeclared is any name that a test of the contract may use.
func isDeclared(name string) bool { return name == declared.Name || name == "gpu-07" }

func (*archive) Get(_ context.Context, _ desired.Kind, _, name string) (desired.Object, error) {
	if !isDeclared(name) {
		return desired.Object{}, errs.New(errs.NotFound, "no such declaration")
	}
	return declared, nil
}

func (*archive) List(context.Context, desired.Kind, string, int) ([]desired.Object, error) {
	return []desired.Object{declared}, nil
}

var revisions = []desired.Revision{
	{Revision: 8, Source: "fleet", Commit: "bad", Status: "invalid", Findings: []desired.Finding{{Path: "nodes.cue", Line: 3, Column: 1, Message: "negative price"}}, At: t0},
	{Revision: 7, Source: "fleet", Commit: "good", Status: "applied", At: t0},
}

func (d *archive) Revisions(_ context.Context, f rest.RevisionFilter) ([]desired.Revision, error) {
	d.note(f)
	return revisions, nil
}

func (*archive) Revision(_ context.Context, number int64) (desired.Revision, error) {
	for _, r := range revisions {
		if r.Revision == number {
			return r, nil
		}
	}
	return desired.Revision{}, errs.New(errs.NotFound, "no such revision")
}

func (*archive) Pointer(context.Context, string) (desired.Pointer, error) {
	return desired.Pointer{Revision: 7, Commit: "good"}, nil
}

// declaring has the names that archive has for others.
type declaring struct{ *archive }

func (d declaring) change(ch identity.Change[desired.Object], what any, name string, o desired.Object) (desired.Object, error) {
	return change(d.people, ch, func() (desired.Object, error) {
		if !isDeclared(name) {
			return desired.Object{}, errs.New(errs.NotFound, "no such declaration")
		}
		d.note(what)
		return o, nil
	})
}

func (d declaring) Put(_ context.Context, ch identity.Change[desired.Object], p rest.Put) (desired.Object, error) {
	made := declared
	made.Kind, made.Name, made.Spec, made.Labels, made.Source = p.Kind, p.Name, p.Spec, p.Labels, desired.Source{Owner: desired.OwnerAPI}
	if p.New {
		made.Generation, made.ResourceVersion = 1, 1
	}
	return change(d.people, ch, func() (desired.Object, error) {
		d.note(p)
		return made, nil
	})
}

func (d declaring) Delete(_ context.Context, ch identity.Change[desired.Object], of rest.Object, version int64) (desired.Object, error) {
	return d.change(ch, version, of.Name, declared)
}

func (d declaring) Adopt(_ context.Context, ch identity.Change[desired.Object], of rest.Object, _ int64, to desired.Owner, source string) (desired.Object, error) {
	return d.change(ch, string(to)+" "+source, of.Name, declared)
}

func (d declaring) Suspend(_ context.Context, ch identity.Change[desired.Object], of rest.Object, h rest.Hold) (desired.Object, error) {
	return d.change(ch, h, of.Name, declared)
}

func (d declaring) Resume(_ context.Context, ch identity.Change[desired.Object], of rest.Object) (desired.Object, error) {
	return d.change(ch, of, of.Name, declared)
}

func (d declaring) Reconcile(_ context.Context, ch identity.Change[desired.Object], of rest.Object, reason string) (desired.Object, error) {
	return d.change(ch, reason, of.Name, declared)
}

// fleet is the one source. Its hooks are not signed by the word wrong.
var fleet = rest.GitSource{
	Name: "fleet", Repository: "https://git.example/fleet.git", Ref: "main", Dirs: []string{"environments/production"}, DeclaredBy: "server",
	Forge: &rest.Forge{Kind: "github", Project: "acme/fleet", URL: "https://api.github.com"}, Head: "good", Applied: "good", Revision: 7, CheckedAt: &t0,
	Conditions: []rest.Condition{{Type: "SourceFetched", Status: "True", Reason: "Succeeded", LastTransitionTime: t0}}, Version: 3,
}

func (*archive) Sources(_ context.Context, after string, _ int) ([]rest.GitSource, error) {
	if after >= fleet.Name {
		return nil, nil
	}
	return []rest.GitSource{fleet}, nil
}

func (*archive) Source(_ context.Context, name string) (rest.GitSource, error) {
	if name != fleet.Name {
		return rest.GitSource{}, errs.New(errs.NotFound, "no such source")
	}
	return fleet, nil
}

func (d *archive) source(ch identity.Change[rest.GitSource], what any, name string) (rest.GitSource, error) {
	return change(d.people, ch, func() (rest.GitSource, error) {
		if name != fleet.Name {
			return rest.GitSource{}, errs.New(errs.NotFound, "no such source")
		}
		d.note(what)
		return fleet, nil
	})
}

func (d *archive) SyncSource(_ context.Context, ch identity.Change[rest.GitSource], name string) (rest.GitSource, error) {
	return d.source(ch, "sync", name)
}

func (d *archive) SuspendSource(_ context.Context, ch identity.Change[rest.GitSource], name string, h rest.Hold) (rest.GitSource, error) {
	return d.source(ch, h, name)
}

func (d *archive) ResumeSource(_ context.Context, ch identity.Change[rest.GitSource], name string) (rest.GitSource, error) {
	return d.source(ch, "resume", name)
}

func (d *archive) Hook(_ context.Context, source string, h http.Header, body []byte) error {
	switch {
	case source == "offline":
		return errs.New(errs.NotFound, "no forge speaks for this source")
	case source != fleet.Name, h.Get("X-Hub-Signature-256") == "wrong":
		return errs.New(errs.SignatureInvalid, "the signature is not of this body")
	}
	d.note(string(body))
	return nil
}

var drift1 = reconciler.Drift{
	ID: uuid.Must(uuid.NewV7()), Kind: "Allocation", Object: declared.UID.UUID, Name: "first", Field: "access", Desired: "a", Observed: "b", Status: "open",
	Policy: "heal", Owner: "platform", Cause: "changed on the host", OpenedAt: t0, SeenAt: t0, Cost: 289, Currency: "EUR", Version: 1,
}

// differing has the names that archive has for others.
type differing struct{ *archive }

func (d differing) Drifts(_ context.Context, f reconciler.DriftFilter) ([]reconciler.Drift, error) {
	d.note(f)
	return []reconciler.Drift{drift1}, nil
}

func (d differing) Ignore(_ context.Context, ch identity.Change[reconciler.Drift], id uuid.UUID, h rest.Hold) (reconciler.Drift, error) {
	return change(d.people, ch, func() (reconciler.Drift, error) {
		d.note(h)
		ignored := drift1
		ignored.Status, ignored.IgnoredBy, ignored.IgnoredReason, ignored.IgnoredUntil = "ignored", "user:x", h.Reason, h.Until
		return ignored, nil
	})
}

func (d differing) Trace(ctx context.Context, of rest.Object) (desired.Object, []reconciler.TraceStep, error) {
	o, err := d.Get(ctx, of.Kind, of.Scope, of.Name)
	return o, []reconciler.TraceStep{{Stage: reconciler.StageDesired, At: t0, State: "declared", Text: "generation 2", Reference: "good"}}, err
}

func (differing) Seen(_ context.Context, of []desired.Object) (map[ids.Object]rest.ObjectSeen, error) {
	return map[ids.Object]rest.ObjectSeen{of[0].UID: {Carried: &observed.Carried{Applied: observed.Applied{Generation: 1}, SeenAt: t0}}}, nil
}

var window = rest.Setting{
	Key: "billing.window_seconds", Scope: policies.Platform, Value: json.RawMessage(`60`), Object: "billing-window", Version: 3, Source: desired.Source{Owner: desired.OwnerAPI},
}

func (*archive) Settings(context.Context, []string) ([]rest.Setting, error) {
	return []rest.Setting{window}, nil
}

func (d *archive) Set(_ context.Context, ch identity.Change[[]rest.Setting], s rest.NewSetting) ([]rest.Setting, error) {
	return change(d.people, ch, func() ([]rest.Setting, error) {
		d.note(s)
		return []rest.Setting{window}, nil
	})
}

// history has a plan of the loop, and what became of proposals.
type history struct{ *archive }

var (
	plan1   = rest.Plan{ID: ids.New[ids.Plan](), CreatedAt: t0, Status: "applied", Hash: "3f0a", Actions: 1, Origin: "loop"}
	change1 = rest.PlanDetail{
		Plan: rest.Plan{ID: ids.New[ids.Plan](), CreatedAt: t0, Status: "proposed", Hash: "77aa", Actions: 1, Origin: "change", Source: "fleet", Author: "ada@example.com", Summary: "Plan: nothing"},
		Change: json.RawMessage(`{"source":"fleet","repository":"r","commit":"9f3c2d1e","base":"","objects":1,"steps":[],"creates":0,"changes":0,"deletes":0,"adopts":0,
			"blast":{"tenants":0,"projects":0,"allocations":0,"nodes":0,"agents":0,"drains":[],"over_caps":[],"names":[]},"money":[],"waits":[],"findings":[],"summary":"Plan: nothing"}`),
	}
)

func (h history) Plans(_ context.Context, f rest.PlanFilter) ([]rest.Plan, error) {
	h.note(f)
	return []rest.Plan{change1.Plan, plan1}, nil
}

func (history) Plan(_ context.Context, id ids.Plan) (rest.PlanDetail, error) {
	switch id {
	case change1.ID:
		return change1, nil
	case plan1.ID:
		return rest.PlanDetail{Plan: plan1, Steps: []rest.PlanAction{{Number: 1, Kind: "Allocation", Object: declared.UID.UUID, Node: &node1.ID, Verb: "ensure", Reason: "never reported"}}}, nil
	}
	return rest.PlanDetail{}, errs.New(errs.NotFound, "no such plan")
}

func (h history) Propose(ctx context.Context, ch identity.Change[rest.PlanDetail], p rest.Proposal) (rest.PlanDetail, error) {
	if h.begun != nil {
		h.begun <- struct{}{}
		select {
		case <-h.done:
		case <-ctx.Done():
		}
	}
	return change(h.people, ch, func() (rest.PlanDetail, error) {
		h.note(p)
		return change1, nil
	})
}

func (h history) decide(ch identity.Change[rest.PlanDetail], d rest.Decision, status string) (rest.PlanDetail, error) {
	return change(h.people, ch, func() (rest.PlanDetail, error) {
		h.note(d)
		if d.Hash == "moved" {
			return rest.PlanDetail{}, errs.New(errs.PlanStale, "the plan has moved").With("moved", []string{"Node/n7: generation 3, was 2"})
		}
		decided, at := change1, t0.Add(time.Minute)
		decided.Status, decided.DecidedBy, decided.DecidedAt, decided.Decision = status, "user:x", &at, d.Reason
		return decided, nil
	})
}

func (h history) Approve(_ context.Context, ch identity.Change[rest.PlanDetail], d rest.Decision) (rest.PlanDetail, error) {
	return h.decide(ch, d, "approved")
}

func (h history) Reject(_ context.Context, ch identity.Change[rest.PlanDetail], d rest.Decision) (rest.PlanDetail, error) {
	return h.decide(ch, d, "rejected")
}

func (h history) Apply(_ context.Context, ch identity.Change[rest.PlanDetail], d rest.Decision) (rest.PlanDetail, error) {
	return h.decide(ch, d, "applied")
}
