package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/output"
)

// changes is the part of the fake for desired objects. Node/gpu-07 is owned by Git and Policy/gpu-cap by the API; a
// file that names "stale", "waits", "nothing" or "wrong" results in such a plan.
type changes struct {
	objects  []*oapi.DesiredObject
	plans    []*oapi.PlanDetail
	source   oapi.GitSource
	drift    oapi.Drift
	policies []oapi.PolicyKey
	sent     oapi.PlanRequest // the last files
	commit   string           // of revision 7, if a script names it
	syncs    int              // at the source, since a check was requested
}

func newChanges() changes {
	no := oapi.Condition{Type: "Ready", Status: "False", Reason: "ValidationFailed", Message: "skus.cue:12:5: amountMinor is -1", LastTransitionTime: birth}
	head, applied, checked, revision := "aaaaaaaaaaaaaaaa", "9f3c2d1e00000000", birth, int64(7)
	c := changes{
		source: oapi.GitSource{
			Name: "fleet", Repository: "https://git.example/fleet.git", Ref: "refs/heads/main", Dirs: []string{"environments/dev"}, DeclaredBy: "server", Version: 1,
			Head: &head, AppliedCommit: &applied, CheckedAt: &checked, Revision: &revision, Conditions: []oapi.Condition{no},
			Forge: &oapi.ForgeInfo{Kind: "gitea", Project: "core/fleet", Url: "https://git.example"}, Verify: oapi.VerifyInfo{Required: true, Signers: 2},
		},
		drift: oapi.Drift{
			Id: id(60), Kind: "Node", ObjectId: id(20), Name: "gpu-07", Field: "gpus", Desired: "8", Observed: "7", Status: "open", Policy: "warn", Owner: "operator",
			Cause: "GPU-3 is gone\x1b[2J", OpenedAt: birth, ObservedAt: birth, CostPerHour: &oapi.Money{AmountMinor: 289, Currency: "EUR"}, Version: 1,
		},
	}
	c.objects = []*oapi.DesiredObject{fakeObject("Node", "gpu-07", "git"), fakeObject("Policy", "gpu-cap", "api")}
	c.objects[0].Status = &oapi.ObjectStatus{ObservedGeneration: 2, Sync: "Synced", Health: "Healthy", Conditions: []oapi.ObjectCondition{{Type: "Ready", Status: "True", Reason: "Succeeded", Message: "ready", LastTransitionTime: birth}}}
	c.objects[0].Spec = map[string]any{"sku": "h100-80gb", "region": "eu-1", "gpus": 8, "cordoned": false, "tags": []string{}}
	c.objects[1].Spec = map[string]any{"key": "allocation.max_gpus", "scope": "platform", "value": 8}
	low, high := int64(0), int64(100)
	c.policies = []oapi.PolicyKey{
		{Key: "gitops.apply_requires", Meaning: "what a revision needs", Type: "list", Default: policyOf(`["approved"]`), Scopes: []string{"platform"}, Readers: []string{}, Set: []oapi.PolicySetting{}},
		{
			Key: "gitops.prune_cap_percent", Meaning: "share that may be removed", Type: "int", Default: policyOf("5"), Minimum: &low, Maximum: &high, Scopes: []string{"platform"}, Readers: []string{},
			Set: []oapi.PolicySetting{{Scope: "platform", Value: policyOf("10"), Object: "prune-cap", Version: 3, Source: oapi.Source{Owner: "api"}}},
		},
		{Key: "gitops.prune_cap_percent_more", Meaning: "another", Type: "int", Default: policyOf("1"), Scopes: []string{"platform"}, Readers: []string{}, Set: []oapi.PolicySetting{}},
	}
	return c
}

func policyOf(text string) (v oapi.PolicyValue) {
	_ = v.UnmarshalJSON([]byte(text))
	return v
}

func fakeObject(kind oapi.Kind, name string, owner oapi.SourceOwner) *oapi.DesiredObject {
	o := &oapi.DesiredObject{
		ApiVersion: "gpuaas/v1alpha1", Kind: kind, Spec: map[string]any{},
		Metadata: oapi.DesiredMetadata{
			Name: name, Uid: id(20), Urn: "u", Labels: map[string]string{}, Annotations: map[string]string{"gpuaas/prune": "confirm"}, Generation: 2, ResourceVersion: "5", CreatedAt: birth, UpdatedAt: birth,
			Source: oapi.Source{Owner: owner},
		},
	}
	if owner == "git" {
		path, line, commit := "environments/dev/nodes.cue", 12, "9f3c2d1e00000000"
		o.Metadata.Source.Path, o.Metadata.Source.Line, o.Metadata.Source.Commit = &path, &line, &commit
	}
	return o
}

// change answers the operations of changes; false: it is none of them.
func (f *fake) change(w http.ResponseWriter, r *http.Request, operation string, params map[string]string) bool {
	c := &f.changes
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	answers := map[string]func(){
		"getDesired": func() { f.object(w, r, params, func(o *oapi.DesiredObject) { f.tagged(w, http.StatusOK, o) }) },
		"listDesired": func() {
			var all []any
			for _, o := range c.objects {
				if string(o.Kind) == params["kind"] {
					all = append(all, o)
				}
			}
			f.page(w, r, append([]any{}, all...), 1)
		},
		"putDesired": func() { f.putObject(w, r, params, body) },
		"deleteDesired": func() {
			f.ownedChange(w, r, params, func(o *oapi.DesiredObject) { f.dropObject(o); f.tagged(w, http.StatusAccepted, o) })
		},
		"adoptDesired":     func() { f.adopt(w, r, params, body) },
		"reconcileDesired": func() { f.object(w, r, params, func(o *oapi.DesiredObject) { f.tagged(w, http.StatusAccepted, o) }) },
		"suspendDesired": func() {
			f.object(w, r, params, func(o *oapi.DesiredObject) {
				o.Metadata.Suspended = suspension(body)
				f.tagged(w, http.StatusOK, o)
			})
		},
		"resumeDesired": func() {
			f.object(w, r, params, func(o *oapi.DesiredObject) { o.Metadata.Suspended = nil; f.tagged(w, http.StatusOK, o) })
		},
		"traceDesired": func() {
			f.object(w, r, params, func(o *oapi.DesiredObject) {
				why := "c-1"
				reply(w, http.StatusOK, oapi.Trace{Object: *o, Steps: []oapi.TraceStep{
					{Stage: "request", OccurredAt: birth, State: "done", Message: "allocation.create by " + r.URL.Query().Get("scope"), Reference: &why},
					{Stage: "observed", OccurredAt: birth, State: "ready", Message: "reported ready at fence 1"},
				}})
			})
		},
		"listGitSources":   func() { f.page(w, r, []any{c.source}, 1) },
		"getGitSource":     func() { f.gitSource(w, r, params, func() { c.sync() }) },
		"syncGitSource":    func() { c.syncs = 1; f.gitSource(w, r, params, func() {}) },
		"suspendGitSource": func() { f.gitSource(w, r, params, func() { c.source.Suspended = suspension(body) }) },
		"resumeGitSource": func() {
			// What was wrong was mended meanwhile.
			f.gitSource(w, r, params, func() { c.source.Suspended = nil; c.source.Conditions[0].Status = "True" })
		},
		"getRevision": func() {
			for _, one := range f.revisions() {
				if strconv.FormatInt(one.Revision, 10) == params["revision"] {
					reply(w, http.StatusOK, one)
					return
				}
			}
			f.problem(w, r, http.StatusNotFound, "not_found", "there is no such revision", nil)
		},
		"listRevisions": func() { reply(w, http.StatusOK, oapi.RevisionList{Items: f.revisions()}) },
		"createPlan":    func() { f.propose(w, r, body) },
		"applyPlan":     func() { f.decide(w, r, params, body, "applied") },
		"approvePlan":   func() { f.decide(w, r, params, body, "approved") },
		"rejectPlan":    func() { f.decide(w, r, params, body, "rejected") },
		"listDrift":     func() { f.page(w, r, []any{c.drift}, 1) },
		"ignoreDrift": func() {
			var i oapi.Ignore
			read(body, &i)
			c.drift.Status, c.drift.Ignored = "ignored", &oapi.Ignored{By: "user:dev", Reason: i.Reason, Until: i.Until}
			f.tagged(w, http.StatusOK, c.drift)
		},
		"listPolicies": func() {
			var all []any
			for _, k := range c.policies {
				if strings.HasPrefix(k.Key, r.URL.Query().Get("prefix")) {
					all = append(all, k)
				}
			}
			f.page(w, r, append([]any{}, all...), 1)
		},
		"putPolicy": func() { f.putPolicy(w, r, params, body) },
	}
	do, ok := answers[operation]
	if ok {
		f.people.requests = append(f.people.requests, operation+"?"+r.URL.RawQuery)
		if r.Method != http.MethodGet && r.Header.Get("X-Idempotency-Key") == "" {
			f.t.Errorf("%s carries no key: repeated, it would be done twice", operation)
		}
		do()
	}
	return ok
}

func suspension(body []byte) *oapi.Suspension {
	var s oapi.Suspend
	read(body, &s)
	return &oapi.Suspension{By: "user:dev", Reason: s.Reason, SuspendedAt: birth, Until: s.Until}
}

// sync counts polls; the third one finds the source synced again.
func (c *changes) sync() {
	if c.syncs == 0 {
		return
	}
	if c.syncs++; c.syncs > 3 {
		now := c.source.CheckedAt.Add(time.Minute)
		c.source.CheckedAt, c.syncs = &now, 0
	}
}

func (f *fake) gitSource(w http.ResponseWriter, r *http.Request, params map[string]string, do func()) {
	if params["name"] != f.changes.source.Name {
		f.problem(w, r, http.StatusNotFound, "not_found", "there is no such source", nil)
		return
	}
	do()
	status := http.StatusOK
	if strings.HasSuffix(r.URL.Path, "/sync") {
		status = http.StatusAccepted
	}
	f.tagged(w, status, f.changes.source)
}

func (f *fake) revisions() []oapi.Revision {
	plan, message, author := id(500), "cut\x1b[2J prices", "ada@example.com"
	waits := []oapi.ApprovalReason{{Reason: "prune_cap", Message: "6 objects would go, 5 may", Objects: []string{"Node/a", "Node/b", "Node/c", "Node/d", "Node/e", "Node/f"}}}
	waiting := oapi.Revision{
		Revision: 9, Source: "fleet", Commit: "bbbbbbbbbbbbbbbb", Status: "waiting_approval", Objects: 12, Deleted: 6, Findings: []oapi.Finding{}, CreatedAt: birth,
		PlanId: &plan, ApprovalReasons: &waits, Message: &message, Author: &author,
	}
	if !slices.ContainsFunc(f.changes.plans, func(p *oapi.PlanDetail) bool { return p.Id == plan }) {
		f.changes.plans = append(f.changes.plans, fakePlan(plan, "waits", nil))
	}
	all := append([]oapi.Revision{waiting}, fakeRevisions()...)
	if f.changes.commit != "" {
		all[2].Commit = f.changes.commit
	}
	return all
}

func (f *fake) tagged(w http.ResponseWriter, status int, v any) {
	w.Header().Set("ETag", `"5"`)
	reply(w, status, v)
}

func (f *fake) object(w http.ResponseWriter, r *http.Request, params map[string]string, do func(*oapi.DesiredObject)) {
	for _, o := range f.changes.objects {
		if string(o.Kind) == params["kind"] && o.Metadata.Name == params["name"] {
			do(o)
			return
		}
	}
	if name := params["name"]; name == "sold-out" || strings.HasPrefix(name, "new") {
		f.problem(w, r, http.StatusNotFound, "not_found", "there is no such object", nil)
		return
	}
	if kind := params["kind"]; kind == "Allocation" && r.URL.Query().Get("scope") == "" {
		f.problem(w, r, http.StatusNotFound, "not_found", "an allocation is named within its project", nil)
		return
	}
	do(fakeObject(oapi.Kind(params["kind"]), params["name"], "git"))
}

// ownedChange rejects writes to objects of Git and writes with an old version.
func (f *fake) ownedChange(w http.ResponseWriter, r *http.Request, params map[string]string, do func(*oapi.DesiredObject)) {
	f.object(w, r, params, func(o *oapi.DesiredObject) {
		switch {
		case r.Header.Get("If-Match") != strconv.Quote(o.Metadata.ResourceVersion):
			f.problem(w, r, http.StatusPreconditionFailed, "version_mismatch", "it was changed meanwhile", nil)
		case o.Metadata.Source.Owner == "git":
			f.problem(w, r, http.StatusConflict, "managed_by_git", "Git owns it", map[string]any{"path": "environments/dev/nodes.cue", "line": 12, "suggestion": "edit environments/dev/nodes.cue:12"})
		default:
			do(o)
		}
	})
}

func (f *fake) putObject(w http.ResponseWriter, r *http.Request, params map[string]string, body []byte) {
	var write oapi.DesiredWrite
	read(body, &write)
	dry := r.URL.Query().Get("dry_run") == "true"
	if strings.HasPrefix(params["name"], "new") && r.Header.Get("If-Match") == "" {
		o := fakeObject(oapi.Kind(params["kind"]), params["name"], "api")
		o.Spec = write.Spec
		if !dry {
			f.changes.objects = append(f.changes.objects, o)
		}
		w.Header().Set("Location", "/x")
		f.tagged(w, http.StatusCreated, o)
		return
	}
	f.ownedChange(w, r, params, func(o *oapi.DesiredObject) {
		if !dry {
			o.Spec, o.Metadata.Generation = write.Spec, o.Metadata.Generation+1
		}
		f.tagged(w, http.StatusOK, o)
	})
}

func (f *fake) dropObject(o *oapi.DesiredObject) {
	f.changes.objects = slices.DeleteFunc(f.changes.objects, func(v *oapi.DesiredObject) bool { return v == o })
}

func (f *fake) adopt(w http.ResponseWriter, r *http.Request, params map[string]string, body []byte) {
	var a oapi.Adopt
	read(body, &a)
	f.object(w, r, params, func(o *oapi.DesiredObject) {
		if r.Header.Get("If-Match") == "" {
			f.t.Error("an object was adopted unseen")
		}
		if a.Owner == "git" {
			o.Metadata.Adopt = &oapi.Adoption{Source: *a.Source, Until: birth}
		} else {
			o.Metadata.Source = oapi.Source{Owner: "api"}
		}
		f.tagged(w, http.StatusOK, o)
	})
}

func (f *fake) putPolicy(w http.ResponseWriter, r *http.Request, params map[string]string, body []byte) {
	var write oapi.PolicyWrite
	read(body, &write)
	for i := range f.changes.policies {
		k := &f.changes.policies[i]
		if k.Key != params["key"] {
			continue
		}
		if len(k.Set) > 0 && r.Header.Get("If-Match") != `"3"` || len(k.Set) == 0 && r.Header.Get("If-None-Match") != "*" {
			f.problem(w, r, http.StatusPreconditionFailed, "version_mismatch", "it was changed meanwhile", nil)
			return
		}
		k.Set = []oapi.PolicySetting{{Scope: output.ValueOrZero(write.Scope), Value: write.Value, Object: "x", Version: 4, Source: oapi.Source{Owner: "api"}}}
		f.tagged(w, http.StatusOK, k)
		return
	}
	f.problem(w, r, http.StatusNotFound, "not_found", "there is no such key", nil)
}

// propose creates the plan that the texts in the files request.
func (f *fake) propose(w http.ResponseWriter, r *http.Request, body []byte) {
	f.changes.sent = oapi.PlanRequest{}
	read(body, &f.changes.sent)
	var text strings.Builder
	for _, name := range output.SortedKeys(f.changes.sent.Files) {
		f.people.requests = append(f.people.requests, "file "+name)
		text.WriteString(f.changes.sent.Files[name])
	}
	word := "changes"
	for _, w := range []string{"stale", "waits", "nothing", "wrong", "refused"} {
		if strings.Contains(text.String(), w) {
			word = w
		}
	}
	if word == "wrong" {
		f.problem(w, r, http.StatusUnprocessableEntity, "spec_invalid", "amountMinor is -1", map[string]any{
			"findings": []any{map[string]any{"path": "fleet/skus.yaml", "line": 12, "column": 5, "object": "SKU/t4", "field": "spec.price", "message": "amountMinor is -1"}},
		})
		return
	}
	p := fakePlan(id(600+len(f.changes.plans)), word, f.changes.sent.Source)
	p.Commit, p.Author = f.changes.sent.Commit, f.changes.sent.Author
	f.changes.plans = append(f.changes.plans, p)
	w.Header().Set("Location", "/api/v1/admin/plans/"+p.Id.String())
	reply(w, http.StatusCreated, p)
}

func fakePlan(id uuid.UUID, word string, source *string) *oapi.PlanDetail {
	origin, from, to, path, line := oapi.PlanDetailOriginChange, "8", "16", "environments/dev/nodes.cue", 12
	place := oapi.Source{Owner: "git", Path: &path, Line: &line, Column: &line}
	c := oapi.ChangePlan{
		Source: output.ValueOrZero(source), Repository: "https://git.example/fleet.git", Objects: 12, Changes: 1, Creates: 1, Deletes: 1,
		Steps: []oapi.ChangeStep{
			{Action: "change", Kind: "Node", Name: "gpu-07", Uid: id, Generation: 2, Place: place, Fields: []oapi.FieldChange{{Path: "/spec/gpus", From: &from, To: &to}, {Path: "/spec/tags/0", To: &to}}},
			{Action: "create", Kind: "Policy", Name: "new-cap", Uid: id, Place: place, Fields: []oapi.FieldChange{{Path: "/spec/value", To: &to}}},
			{Action: "delete", Kind: "Policy", Name: "gpu-cap", Uid: id, Generation: 2, Place: oapi.Source{Owner: "api"}, Fields: []oapi.FieldChange{}},
		},
		BlastRadius: oapi.BlastRadius{Tenants: 1, Projects: 1, Allocations: 3, Drains: []oapi.Drain{}, OverCaps: []oapi.OverCap{}, Names: []string{"acme"}},
		Money:       []oapi.MoneyChange{}, ApprovalReasons: []oapi.ApprovalReason{}, Findings: []oapi.Finding{},
		Summary: "Plan: 1 to create, 1 to change, 1 to delete. 3 allocations of 1 project affected; +EUR 0.30/h",
	}
	switch word {
	case "nothing":
		c.Steps, c.Changes, c.Creates, c.Deletes, c.Summary = []oapi.ChangeStep{}, 0, 0, 0, "Plan: nothing to do."
	case "refused":
		c.Steps, c.Changes, c.Creates, c.Deletes, c.Summary = []oapi.ChangeStep{}, 0, 0, 0, "Plan: nothing to do."
		c.Findings = []oapi.Finding{{Path: path, Line: 12, Column: 1, Message: "the API owns it"}}
	case "waits":
		c.ApprovalReasons = []oapi.ApprovalReason{{Reason: "prune_cap", Message: "6 objects would go, 5 may", Objects: []string{"Node/a"}}}
	}
	return &oapi.PlanDetail{Id: id, CreatedAt: birth, Status: "proposed", Hash: "h-" + word, Origin: &origin, Source: source, Summary: &c.Summary, Steps: []oapi.PlanAction{}, Change: &c}
}

func (f *fake) decide(w http.ResponseWriter, r *http.Request, params map[string]string, body []byte, status oapi.PlanDetailStatus) {
	var d oapi.Decision
	read(body, &d)
	for _, p := range f.changes.plans {
		if p.Id.String() != params["id"] {
			continue
		}
		switch {
		case output.ValueOrZero(d.Hash) != p.Hash:
			f.t.Errorf("%s was decided about by hash %q", p.Hash, output.ValueOrZero(d.Hash))
		case p.Hash == "h-stale":
			f.problem(w, r, http.StatusConflict, "plan_stale", "the plan has moved", map[string]any{"moved": []string{"Node/gpu-07: generation 3, was 2"}})
			return
		case p.Hash == "h-waits" && status == "applied":
			f.problem(w, r, http.StatusConflict, "approval_required", "6 objects would go", nil)
			return
		}
		who := "user:dev"
		p.Status, p.DecidedBy, p.DecidedAt, p.Decision = status, &who, &birth, d.Reason
		reply(w, http.StatusOK, p)
		return
	}
	f.problem(w, r, http.StatusNotFound, "not_found", "there is no such plan", nil)
}

// planned returns a stored plan.
func (f *fake) planned(params map[string]string) *oapi.PlanDetail {
	f.revisions()
	at := slices.IndexFunc(f.changes.plans, func(p *oapi.PlanDetail) bool { return p.Id.String() == params["id"] })
	if at < 0 {
		return nil
	}
	return f.changes.plans[at]
}

// sentFiles returns the files of the last plan, for scripts.
func (f *fake) sentFiles() string {
	text, _ := json.Marshal(f.changes.sent)
	return string(text)
}
