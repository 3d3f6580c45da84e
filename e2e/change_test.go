//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/dev/forge"
	"github.com/gpuaas/gpuaas/internal/secretref/secretreftest"
)

// declarations are the files of the forge's repository by path. The profile stays in the checkout in which "gpuaas up"
// runs, and names this repository as a source.
var declarations = map[string]string{
	"skus.yaml": `
apiVersion: gpuaas/v1alpha1
kind: SKU
metadata: {name: t4}
spec:
  gpuModel: Tesla T4
  memoryGiB: 16
  maxGPUs: 4
  price: {currency: EUR, amountMinor: 35}
`,
	"nodes.yaml": `
apiVersion: gpuaas/v1alpha1
kind: Node
metadata: {name: gpu-t4-01}
spec: {sku: t4, region: eu-dev-1, gpus: 4, onboarding: simulated, hardware: t4-4}
---
apiVersion: gpuaas/v1alpha1
kind: Node
metadata: {name: gpu-t4-02}
spec: {sku: t4, region: eu-dev-1, gpus: 4, onboarding: simulated, hardware: t4-4, cordoned: false}
`,
	"policies.yaml": `
apiVersion: gpuaas/v1alpha1
kind: Policy
metadata: {name: cap}
spec: {key: allocation.max_concurrent_per_tenant, value: 4}
`,
}

// office is an installation whose nodes are declared at a forge, and a user
// with a clone of that repository.
type office struct {
	*installation

	double *forge.Double
	server *httptest.Server
	clone  string
	env    []string
}

const (
	forgeToken = "token-of-the-robot"
	hookSecret = "what the forge and we know"
)

func newOffice(t *testing.T, kind string) *office {
	t.Helper()
	o := &office{installation: newInstallation(t)}
	var err error
	o.double, err = forge.New(t.Context(), forge.Config{
		Kind: kind, Dir: o.path("forge"), Project: "acme/fleet", Token: forgeToken, HookSecret: hookSecret,
	})
	must(t, err)
	o.server = httptest.NewServer(o.double)
	t.Cleanup(o.server.Close)
	env := secretreftest.Env(t, o.server.URL, map[string]string{"forge": forgeToken, "hook": hookSecret})
	for _, name := range []string{"GPUAAS_CREDENTIALS", "GPUAAS_CREDENTIALS_DIR"} {
		o.env = append(o.env, name+"="+env(name))
	}

	o.clone = o.path("clone")
	must(t, os.MkdirAll(filepath.Join(o.clone, "fleet"), 0o755))
	git(t, o.clone, "init", "--quiet", "--initial-branch=main")
	git(t, o.clone, "remote", "add", "origin", strings.Replace(o.server.URL, "://", "://ada:"+forgeToken+"@", 1)+"/acme/fleet.git")
	for name, text := range declarations {
		must(t, os.WriteFile(filepath.Join(o.clone, "fleet", name), []byte(text), 0o644))
	}
	o.push("main", "first nodes")

	for _, moved := range []string{"skus.cue", "nodes.cue"} {
		must(t, os.Remove(filepath.Join(o.repo, "environments", "dev", moved)))
	}
	edit(t, filepath.Join(o.repo, "environments", "dev", "environment.cue"), "testCreditMinor:", fmt.Sprintf(`sources: [{
			name:       "machines"
			repository: "file://%s"
			dirs: ["fleet"]
			forge: {kind: %q, url: %q, project: "acme/fleet", tokenRef: "credential:forge", webhookSecretRef: "credential:hook"}
		}]
		testCreditMinor:`, o.double.Repository(), kind, o.server.URL))
	commit(t, o.repo, "move the nodes to the forge")
	return o
}

// open starts up, and has the forge's hooks go to where it listens now.
func (o *office) open() {
	o.t.Helper()
	o.start(o.env...)
	p, err := o.profile("default")
	must(o.t, err)
	o.double.HookTo(p.URL + "/api/v1/git/webhook/machines")
}

// push commits all changes of the clone on a branch, and pushes it.
func (o *office) push(branch, message string) (head string) {
	o.t.Helper()
	commit(o.t, o.clone, message)
	git(o.t, o.clone, "push", "--quiet", "origin", "HEAD:refs/heads/"+branch)
	out, err := exec.Command("git", "-C", o.clone, "rev-parse", "HEAD").Output()
	must(o.t, err)
	return strings.TrimSpace(string(out))
}

// change edits a file of the clone.
func (o *office) change(file, from, to string) {
	o.t.Helper()
	edit(o.t, filepath.Join(o.clone, "fleet", file), from, to)
}

// operator calls the API as an operator.
func (o *office) operator(path string, into any) error {
	p, err := o.profile("default-operator")
	if err != nil {
		return err
	}
	r, err := http.NewRequest(http.MethodGet, p.URL+path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+p.Token)
	reply, err := caller.Do(r)
	if err != nil {
		return err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %d %s, %w", path, reply.StatusCode, text, err)
	}
	return json.Unmarshal(text, into)
}

type revision struct {
	Revision         int64
	Source, Commit   string
	Plan             string `json:"plan_id"`
	Status           string
	Current          bool
	Author, Message  string
	Changed, Objects int
	Findings         []struct {
		Path, Message, Code string
		Line, Column        int
	}
}

type condition struct{ Type, Status, Reason, Message string }

type listing struct {
	Head       string
	Applied    string `json:"applied_commit"`
	Conditions []condition
}

// became waits until the API returns the status of a commit.
func (o *office) became(commit, status string) (r revision) {
	o.t.Helper()
	ok := until(o.t, patience, commit[:8]+" is "+status, func() error {
		time.Sleep(10 * pollEvery) // below the rate limit
		var list struct{ Items []revision }
		if err := o.operator("/api/v1/admin/revisions?source=machines", &list); err != nil {
			return err
		}
		i := slices.IndexFunc(list.Items, func(r revision) bool { return r.Commit == commit })
		if i < 0 {
			return fmt.Errorf("%d revisions, and none of it", len(list.Items))
		}
		if r = list.Items[i]; r.Status != status {
			return fmt.Errorf("it is %s: %+v", r.Status, r.Findings)
		}
		return nil
	})
	if !ok {
		o.t.FailNow()
	}
	return r
}

// approve approves a sensitive commit as the operator, who has not written it.
func (o *office) approve(commit string) {
	o.t.Helper()
	r := o.became(commit, "waiting_approval")
	p, err := o.profile("default-operator")
	must(o.t, err)
	request, err := http.NewRequest(http.MethodPost, p.URL+"/api/v1/admin/plans/"+r.Plan+"/approve", strings.NewReader(`{"reason":"read"}`))
	must(o.t, err)
	request.Header.Set("Authorization", "Bearer "+p.Token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	must(o.t, err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		o.t.Fatalf("approving %s: %d", commit, answer.StatusCode)
	}
}

// shows waits until the forge shows these states of a commit, by context.
func (o *office) shows(commit string, want map[string]string) map[string]forge.Status {
	o.t.Helper()
	var got map[string]forge.Status
	until(o.t, patience, "the forge shows "+commit[:8], func() error {
		got = o.double.Statuses(commit)
		for context, state := range want {
			if got[context].State != state {
				return fmt.Errorf("%s is %+v, and not %s", context, got[context], state)
			}
		}
		return nil
	})
	return got
}

// comment waits until the only comment of the platform contains a text.
func (o *office) comment(pull int, text string) (c forge.Comment) {
	o.t.Helper()
	until(o.t, patience, "the comment contains "+text, func() error {
		all := o.double.Comments(pull)
		if len(all) != 1 {
			return fmt.Errorf("%d comments: %+v", len(all), all)
		}
		if c = all[0]; !strings.Contains(c.Body, text) {
			return fmt.Errorf("it contains %s", c.Body)
		}
		return nil
	})
	return c
}

func (o *office) listing() (s listing) {
	o.t.Helper()
	must(o.t, o.operator("/api/v1/admin/git-sources/machines", &s))
	return s
}

func (s listing) condition(kind string) condition {
	i := slices.IndexFunc(s.Conditions, func(c condition) bool { return c.Type == kind })
	if i < 0 {
		return condition{}
	}
	return s.Conditions[i]
}

// declared reads a field of an object's spec as the API shows it.
func (o *office) declared(kind, name, field string) any {
	o.t.Helper()
	var object struct{ Spec map[string]any }
	must(o.t, o.operator("/api/v1/admin/desired/"+kind+"/"+name, &object))
	return object.Spec[field]
}

// drifts edits a row by hand. It waits until the API has reported the drift and the loop has healed it.
func (o *office) drifts(t *testing.T) {
	t.Helper()
	db, err := o.sql(t.Context())
	must(t, err)
	defer db.Close(t.Context())
	_, err = db.Exec(t.Context(), `UPDATE sku_catalog SET spec = spec || '{"maxGPUs": 2}' WHERE name = 't4'`)
	must(t, err)
	until(t, 2*patience, "the drift is reported and healed", func() error {
		time.Sleep(10 * pollEvery)
		var list struct {
			Items []struct{ Name, Field, Desired, Observed, Status string }
		}
		if err := o.operator("/api/v1/admin/drift?kind=SKU", &list); err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Name != "t4" || list.Items[0].Desired == list.Items[0].Observed || list.Items[0].Status != "healed" {
			return fmt.Errorf("%+v", list.Items)
		}
		return nil
	})
	if n := queryOne[int](t, o.installation, `SELECT (spec->>'maxGPUs')::int FROM sku_catalog WHERE name = 't4'`); n != 4 {
		t.Errorf("maxGPUs is %d after it was healed", n)
	}
}

// opensWithFleet opens the office, applies the first commit, and returns it.
func (o *office) opensWithFleet() (first string) {
	o.t.Helper()
	o.open()
	out, err := exec.Command("git", "-C", o.clone, "rev-parse", "HEAD").Output()
	must(o.t, err)
	first = strings.TrimSpace(string(out))
	o.approve(first)
	o.became(first, "applied")
	return first
}

// TestChangeByPullRequest follows one change: a price, a cordon and a cap,
// proposed, commented, corrected, merged, applied; and of one that was wrong.
func TestChangeByPullRequest(t *testing.T) {
	t.Parallel()
	o := newOffice(t, forge.GitHub)
	first := o.opensWithFleet()
	o.shows(first, map[string]string{"gpuaas/validate": "success", "gpuaas/sync": "success"})
	// Agents are started for what is declared when up starts.
	o.stop()
	o.open()
	for range 2 {
		a := o.create(t, "t4", 1)
		o.becomes(t, a, "active")
	}

	git(t, o.clone, "checkout", "--quiet", "-b", "dearer")
	o.change("skus.yaml", "amountMinor: 35", "amountMinor: 55")
	o.push("dearer", "t4: EUR 0.55")
	pull, err := o.double.Open(t.Context(), forge.Pull{From: "dearer", Into: "main", Title: "Dearer, smaller", Author: "ada"})
	must(t, err)
	made := o.comment(pull, "amountMinor")

	// Another push extends the same comment.
	o.change("nodes.yaml", "cordoned: false", "cordoned: true")
	o.change("policies.yaml", "value: 4", "value: 1")
	head := o.push("dearer", "one node less, and a lower cap")
	got := o.shows(head, map[string]string{"gpuaas/validate": "success", "gpuaas/plan": "success", "gpuaas/policy": "success"})
	if !strings.Contains(got["gpuaas/plan"].Text, "3 to change") {
		t.Errorf("gpuaas/plan is %q", got["gpuaas/plan"].Text)
	}
	said := o.comment(pull, "/spec/cordoned")
	if said.ID != made.ID || said.Edits == 0 {
		t.Errorf("comment %d, edited %d times; the first was %d", said.ID, said.Edits, made.ID)
	}
	for _, part := range []string{
		"3 to change", "35 → 55", "false → true", "4 → 1", // the plan
		"over a cap", "allocation.max_concurrent_per_tenant", "becomes 1", // whom it touches
		"burn of all tenants", "EUR 0.70", "EUR 1.10", "runway", // the money
		"plan hash", head[:12],
	} {
		if !strings.Contains(said.Body, part) {
			t.Errorf("the comment does not contain %q:\n%s", part, said.Body)
		}
	}
	if price := o.declared("SKU", "t4", "price"); fmt.Sprint(price) != "map[amountMinor:35 currency:EUR]" {
		t.Errorf("a proposal has changed the price: %v", price)
	}

	merged, err := o.double.Merge(t.Context(), pull)
	must(t, err)
	o.approve(merged)
	r := o.became(merged, "applied")
	if !r.Current || r.Changed != 3 || r.Message != "Merge pull request #1: Dearer, smaller" {
		t.Errorf("%+v", r)
	}
	o.shows(merged, map[string]string{"gpuaas/validate": "success", "gpuaas/plan": "success", "gpuaas/policy": "success", "gpuaas/sync": "success"})
	if s := o.listing(); s.Applied != merged || s.condition("Ready").Status != "True" {
		t.Errorf("%+v", s)
	}
	if o.declared("Node", "gpu-t4-02", "cordoned") != true {
		t.Error("gpu-t4-02 is not cordoned")
	}
	until(t, patience, "the new price is sold", func() error {
		time.Sleep(10 * pollEvery)
		var sku struct {
			Price struct {
				AmountMinor int64 `json:"amount_minor"`
			}
		}
		if _, err := o.call("GET", "/api/v1/skus/t4", "", nil, &sku); err != nil || sku.Price.AmountMinor != 55 {
			return fmt.Errorf("%+v, %w", sku, err)
		}
		return nil
	})
	var more allocation
	if status, err := o.call("POST", "/api/v1/allocations", "over-the-cap", map[string]any{"sku": "t4", "gpus": 1, "name": "over"}, &more); status < 400 {
		t.Errorf("beyond the cap: %d, %v", status, err)
	}
	until(t, patience, "gpu-t4-02 gets no new allocation", func() error {
		if !queryOne[bool](t, o.installation, `SELECT cordoned FROM nodes WHERE name = 'gpu-t4-02'`) {
			return errors.New("it is not cordoned")
		}
		return nil
	})
	o.drifts(t)

	// An invalid file changes nothing, and its commit status names file and line.
	git(t, o.clone, "fetch", "--quiet", "origin", "main")
	git(t, o.clone, "checkout", "--quiet", "-B", "main", "FETCH_HEAD")
	o.change("skus.yaml", "amountMinor: 55", "amountMinor: -55")
	bad := o.push("main", "a gift")
	refused := o.became(bad, "invalid")
	if len(refused.Findings) == 0 || refused.Findings[0].Path != "fleet/skus.yaml" || refused.Findings[0].Line != 9 || refused.Current {
		t.Errorf("%+v", refused)
	}
	shown := o.shows(bad, map[string]string{"gpuaas/validate": "failure", "gpuaas/sync": "failure"})
	if !strings.Contains(shown["gpuaas/validate"].Text, "fleet/skus.yaml:9:") {
		t.Errorf("gpuaas/validate is %q", shown["gpuaas/validate"].Text)
	}
	if s := o.listing(); s.Applied != merged || s.Head != bad || s.condition("Ready").Status == "True" {
		t.Errorf("after a bad commit: %+v", s)
	}
	if price := o.declared("SKU", "t4", "price"); fmt.Sprint(price) != "map[amountMinor:55 currency:EUR]" {
		t.Errorf("a bad commit has changed the price: %v", price)
	}

	o.change("skus.yaml", "amountMinor: -55", "amountMinor: 45")
	good := o.push("main", "meant so")
	o.approve(good)
	o.became(good, "applied")
	o.shows(good, map[string]string{"gpuaas/sync": "success"})
	for _, d := range o.double.Deliveries() {
		if d.Status != 0 && d.Status != http.StatusAccepted {
			t.Errorf("a hook of %s was answered %d", d.Event, d.Status)
		}
	}
}
