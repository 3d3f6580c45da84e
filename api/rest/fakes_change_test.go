package rest_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
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
		return desired.Object{}, errs.New(errs.NotFound, "the object does not exist")
	}
	return declared, nil
}

func (*archive) List(context.Context, desired.Kind, string, int) ([]desired.Object, error) {
	return []desired.Object{declared}, nil
}

var revisions = []revision.Revision{
	{Revision: 8, Source: "fleet", Commit: "bad", Status: "invalid", Findings: []desired.Finding{{Path: "nodes.cue", Line: 3, Column: 1, Message: "negative price"}}, At: t0},
	{Revision: 7, Source: "fleet", Commit: "good", Status: "applied", At: t0},
}

func (d *archive) Revisions(_ context.Context, f revision.RevisionFilter, _ int64, _ int) ([]revision.Revision, error) {
	d.note(f)
	return revisions, nil
}

func (*archive) RevisionAt(_ context.Context, _ pg.Queryer, number int64) (revision.Revision, error) {
	for _, r := range revisions {
		if r.Revision == number {
			return r, nil
		}
	}
	return revision.Revision{}, errs.New(errs.NotFound, "there is no revision %d", number)
}

func (*archive) Pointer(context.Context, string) (revision.Pointer, error) {
	return revision.Pointer{Revision: 7, Commit: "good"}, nil
}

// fleetSource is the one source. Its hooks are not signed by the word wrong.
var fleetSource = revision.SourceState{
	SourceSpec: revision.SourceSpec{
		Name: "fleet", Repository: "https://git.example/fleet.git", Ref: "main", Dirs: []string{"environments/production"},
		Settings: json.RawMessage(`{"forge":{"kind":"github","project":"acme/fleet","url":"https://api.github.com","tokenRef":"env:TOKEN","webhookSecretRef":"file:/etc/hook"},
			"verify":{"required":true,"openPGP":["a","b"],"ssh":["c"]}}`),
	},
	DeclaredBy: "server", Head: "good", CheckedAt: &t0, Applied: revision.Pointer{Revision: 7, Commit: "good", AppliedAt: t0}, Version: 3,
}

func (*archive) Sources(_ context.Context, after string, _ int) ([]revision.SourceState, error) {
	if after >= fleetSource.Name {
		return nil, nil
	}
	return []revision.SourceState{fleetSource}, nil
}

func (*archive) SourceByName(_ context.Context, _ pg.Queryer, name string) (revision.SourceState, error) {
	if name != fleetSource.Name {
		return revision.SourceState{}, errs.New(errs.NotFound, "no source is named %q", name)
	}
	return fleetSource, nil
}

func (d *archive) Hook(_ context.Context, source string, h http.Header, body []byte) error {
	switch {
	case source == "offline":
		return errs.New(errs.NotFound, "no forge speaks for this source")
	case source != fleetSource.Name, h.Get("X-Hub-Signature-256") == "wrong":
		return errs.New(errs.SignatureInvalid, "the signature is not of this body")
	}
	d.note(string(body))
	return nil
}

func (d *archive) Trace(ctx context.Context, kind desired.Kind, scope, name string) (desired.Object, []reconciler.TraceStep, error) {
	o, err := d.Get(ctx, kind, scope, name)
	return o, []reconciler.TraceStep{{Stage: reconciler.StageDesired, At: t0, State: "declared", Text: "generation 2", Reference: "good"}}, err
}

func (*archive) Known(_ context.Context, of []desired.Object) (map[ids.Object]rest.ObjectSeen, error) {
	return map[ids.Object]rest.ObjectSeen{of[0].UID: {Carried: &observed.AppliedSpec{Applied: observed.Applied{Generation: 1}, SeenAt: t0}}}, nil
}

// held is what something was asked to be left alone by.
type held struct {
	reason string
	until  *time.Time
}

// changes has the names that archive has for others.
type changes struct{ *archive }

func (c changes) object(ch identity.Change[desired.Object], what any, name string, o desired.Object) (desired.Object, error) {
	return effectOf(c.people, ch, func() (desired.Object, error) {
		if !isDeclared(name) {
			return desired.Object{}, errs.New(errs.NotFound, "the object does not exist")
		}
		c.note(what)
		return o, nil
	})
}

func (c changes) Put(_ context.Context, ch identity.Change[desired.Object], w change.Write) (desired.Object, error) {
	made := w.Object
	made.UID, made.Source, made.ResourceVersion = declared.UID, desired.Source{Owner: desired.OwnerAPI}, w.Version+1
	return c.object(ch, w, made.Name, made)
}

func (c changes) Delete(_ context.Context, ch identity.Change[desired.Object], n desired.Name, version int64) (desired.Object, error) {
	return c.object(ch, version, n.Name, declared)
}

func (c changes) Adopt(_ context.Context, ch identity.Change[desired.Object], n desired.Name, to desired.Owner, source string, _ int64) (desired.Object, error) {
	return c.object(ch, string(to)+" "+source, n.Name, declared)
}

func (c changes) Suspend(_ context.Context, ch identity.Change[desired.Object], n desired.Name, reason string, until *time.Time) (desired.Object, error) {
	o := declared
	o.Suspended = &desired.Suspension{By: "user:x", Reason: reason, At: t0, Until: until}
	return c.object(ch, held{reason, until}, n.Name, o)
}

func (c changes) Resume(_ context.Context, ch identity.Change[desired.Object], n desired.Name) (desired.Object, error) {
	return c.object(ch, n, n.Name, declared)
}

func (c changes) Reconcile(_ context.Context, ch identity.Change[desired.Object], n desired.Name, reason string) (desired.Object, error) {
	return c.object(ch, reason, n.Name, declared)
}

func (c changes) source(ch identity.Change[revision.SourceState], what any, name string) (revision.SourceState, error) {
	return effectOf(c.people, ch, func() (revision.SourceState, error) {
		c.note(what)
		return c.SourceByName(context.Background(), nil, name)
	})
}

func (c changes) AskSource(_ context.Context, ch identity.Change[revision.SourceState], name string) (revision.SourceState, error) {
	return c.source(ch, "ask", name)
}

func (c changes) SuspendSource(_ context.Context, ch identity.Change[revision.SourceState], name, reason string, until *time.Time) (revision.SourceState, error) {
	return c.source(ch, held{reason, until}, name)
}

func (c changes) ResumeSource(_ context.Context, ch identity.Change[revision.SourceState], name string) (revision.SourceState, error) {
	return c.source(ch, "resume", name)
}

// window is the only key that is set.
var window = change.Setting{Scope: policies.Platform, Value: int64(60), Object: "billing-window", Version: 3, Source: desired.Source{Owner: desired.OwnerAPI}}

const windowKey = "billing.window_seconds"

func (changes) Policies(_ context.Context, prefix, after string, limit int) (page []change.PolicyKey, _ error) {
	keys := policies.Keys()
	slices.SortFunc(keys, func(a, b policies.Key) int { return strings.Compare(a.Name, b.Name) })
	for _, k := range keys {
		if !strings.HasPrefix(k.Name, prefix) || k.Name <= after || len(page) >= limit {
			continue
		}
		one := change.PolicyKey{Key: k}
		if k.Name == windowKey {
			one.Set = []change.Setting{window}
		}
		page = append(page, one)
	}
	return page, nil
}

// setting is what was asked for.
type setting struct {
	key     string
	scope   policies.Scope
	value   any
	version int64
}

func (c changes) SetPolicy(_ context.Context, ch identity.Change[change.PolicyKey], key string, scope policies.Scope, value any, version int64) (change.PolicyKey, error) {
	return effectOf(c.people, ch, func() (change.PolicyKey, error) {
		c.note(setting{key, scope, value, version})
		k, _ := policies.Define(key)
		return change.PolicyKey{Key: k, Set: []change.Setting{{Scope: scope, Value: value, Object: "x", Version: 1, Source: desired.Source{Owner: desired.OwnerAPI}}}}, nil
	})
}

var drift1 = reconciler.Drift{
	ID: uuid.Must(uuid.NewV7()), Kind: "Allocation", Object: declared.UID.UUID, Name: "first", Field: "access", Desired: "a", Observed: "b", Status: "open",
	Policy: "heal", Owner: "platform", Cause: "changed on the node", OpenedAt: t0, SeenAt: t0, Cost: 289, Currency: "EUR", Version: 1,
}

func (c changes) IgnoreDrift(_ context.Context, ch identity.Change[reconciler.Drift], _ uuid.UUID, reason string, until time.Time) (reconciler.Drift, error) {
	return effectOf(c.people, ch, func() (reconciler.Drift, error) {
		c.note(held{reason, &until})
		ignored := drift1
		ignored.Status, ignored.IgnoredBy, ignored.IgnoredReason, ignored.IgnoredUntil = "ignored", "user:x", reason, &until
		return ignored, nil
	})
}

// change1 is a proposal. Its document has no list but is shown with all of them.
var change1 = change.Stored{
	ID: ids.New[ids.Plan](), CreatedAt: t0, Status: change.StatusProposed, Hash: "77aa", Source: "fleet", Commit: "9f3c2d1e", Author: "ada@example.com",
	Plan: preview.Plan{Source: "fleet", Commit: "9f3c2d1e", Summary: "Plan: nothing"},
}

func (c changes) Plans(_ context.Context, f change.Filter) ([]change.Stored, error) {
	c.note(f)
	return before([]change.Stored{change1}, f.Before, f.Limit, func(p change.Stored) ids.Plan { return p.ID }), nil
}

func (changes) Plan(_ context.Context, id ids.Plan) (change.Stored, error) {
	if id != change1.ID {
		return change.Stored{}, errs.New(errs.NotFound, "no such plan")
	}
	return change1, nil
}

func (c changes) Propose(ctx context.Context, ch identity.Change[change.Stored], r change.Request) (change.Stored, error) {
	if c.begun != nil {
		c.begun <- struct{}{}
		select {
		case <-c.done:
		case <-ctx.Done():
		}
	}
	return effectOf(c.people, ch, func() (change.Stored, error) {
		c.note(r)
		return change1, nil
	})
}

func (c changes) decide(ch identity.Change[change.Stored], hash, reason, status string) (change.Stored, error) {
	return effectOf(c.people, ch, func() (change.Stored, error) {
		c.note(hash + " " + reason)
		if hash == "moved" {
			return change.Stored{}, errs.New(errs.PlanStale, "the plan has moved").With("moved", []string{"Node/n7: generation 3, was 2"})
		}
		decided, at := change1, t0.Add(time.Minute)
		decided.Status, decided.DecidedBy, decided.DecidedAt, decided.Decision = status, "user:x", &at, reason
		return decided, nil
	})
}

func (c changes) Approve(_ context.Context, ch identity.Change[change.Stored], _ ids.Plan, hash, reason string) (change.Stored, error) {
	return c.decide(ch, hash, reason, change.StatusApproved)
}

func (c changes) Reject(_ context.Context, ch identity.Change[change.Stored], _ ids.Plan, hash, reason string) (change.Stored, error) {
	return c.decide(ch, hash, reason, change.StatusRejected)
}

func (c changes) Apply(_ context.Context, ch identity.Change[change.Stored], _ ids.Plan, hash string) (change.Stored, error) {
	return c.decide(ch, hash, "", change.StatusApplied)
}

// history is the loop's: two plans, one older and one younger than the change.
type history struct{ *archive }

var (
	plan1 = reconciler.StoredPlan{ID: ids.Plan{UUID: beside(change1.ID.UUID, -1)}, CreatedAt: t0, Status: "applied", Hash: "3f0a", Actions: 1}
	plan2 = reconciler.StoredPlan{ID: ids.Plan{UUID: beside(change1.ID.UUID, 1)}, CreatedAt: t0, Status: "applied", Hash: "4f0a", Actions: 1}
)

// beside is the id that sorts so far from another one.
func beside(id uuid.UUID, by int) uuid.UUID {
	id[5] += byte(by)
	return id
}

func (h history) Plans(_ context.Context, status string, from ids.Plan, limit int) ([]reconciler.StoredPlan, error) {
	h.note(status)
	return before([]reconciler.StoredPlan{plan2, plan1}, from, limit, func(p reconciler.StoredPlan) ids.Plan { return p.ID }), nil
}

// before is a page of what is in order.
func before[T any](all []T, from ids.Plan, limit int, id func(T) ids.Plan) (page []T) {
	for _, one := range all {
		if (from == ids.Plan{} || id(one).String() < from.String()) && len(page) < limit {
			page = append(page, one)
		}
	}
	return page
}

func (history) Plan(_ context.Context, id ids.Plan) (reconciler.StoredPlan, []reconciler.StoredAction, error) {
	if id != plan1.ID {
		return reconciler.StoredPlan{}, nil, errs.New(errs.NotFound, "no such plan")
	}
	return plan1, []reconciler.StoredAction{{Number: 1, Kind: "Allocation", Object: declared.UID.UUID, Node: &node1.ID.UUID, Verb: "ensure", Reason: "never reported"}}, nil
}

func (h history) Drifts(_ context.Context, f reconciler.DriftFilter) ([]reconciler.Drift, error) {
	h.note(f)
	return []reconciler.Drift{drift1}, nil
}
