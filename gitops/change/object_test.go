package change_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/policies"
)

func nodeObject(name, sku string) desired.Object {
	return object(desired.KindNode, name, desired.Node{SKU: sku, Region: "eu-1", Onboarding: "manual", GPUs: 8, Slicing: "whole_gpu"})
}

func (b *bundle) put(o desired.Object, version int64) (desired.Object, error) {
	return b.Put(b.ctx, by[desired.Object](b.ada), change.Write{Object: o, Version: version})
}

func TestPut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	made, err := b.put(skuObject("h100", 249), 0)
	if err != nil || made.ResourceVersion != 1 || made.Generation != 1 || made.Source.Owner != desired.OwnerAPI {
		t.Fatalf("%+v, %v", made, err)
	}
	wantCode(t, "an old name without a version", second(b.put(skuObject("h100", 250), 0)), errs.VersionRequired)
	wantCode(t, "another version", second(b.put(skuObject("h100", 250), 7)), errs.VersionMismatch)
	wantCode(t, "a version of nothing", second(b.put(skuObject("new", 250), 7)), errs.VersionMismatch)
	o := skuObject("h100", 250)
	o.Labels = map[string]string{"tier": "gold"}
	if made, err = b.put(o, 1); err != nil || made.Generation != 2 || made.Labels["tier"] != "gold" {
		t.Fatalf("%+v, %v", made, err)
	}
	for name, bad := range map[string]desired.Object{
		"a price below nothing":  skuObject("a100", -1),
		"a node of no SKU":       nodeObject("n1", "nowhere"),
		"an allocation":          object(desired.KindAllocation, "a", desired.Allocation{}),
		"an unknown key":         object(desired.KindPolicy, "p", desired.Policy{Key: "a.b", Scope: "platform", Value: 1}),
		"a value out of bounds":  object(desired.KindPolicy, "p", desired.Policy{Key: "gitops.poll_seconds", Scope: "platform", Value: 1}),
		"a name that is no name": skuObject("A B", 1),
	} {
		wantCode(t, name, second(b.put(bad, 0)), errs.SpecInvalid)
	}
	if b.audited() != "desired.put, desired.put" {
		t.Error(b.audited())
	}
}

// Omitted fields get their defaults as in files, so that an equal file causes no difference. A
// deleted object that is put again has its old uid.
func TestPutNormalises(t *testing.T) {
	t.Parallel()
	b := setup(t)
	bare := desired.Object{Kind: desired.KindSKU, Name: "h100", Spec: []byte(`{"price":{"amountMinor":249,"currency":"EUR"},"maxGPUs":8,"isolation":"host_user","memoryGiB":80,"gpuModel":"H100"}`)}
	made, err := b.put(bare, 0)
	if err != nil {
		t.Fatal(err)
	}
	if p := b.proposed(b.ada, sku("h100", 249)); !p.Plan.Empty() {
		t.Errorf("%+v", p.Plan.Steps)
	}
	gone, err := b.Delete(b.ctx, by[desired.Object](b.ada), made.Key(), made.ResourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	back, err := b.put(bare, 0)
	if err != nil || back.UID != made.UID || back.Generation <= gone.Generation || back.DeletedAt != nil {
		t.Errorf("%+v, %v", back, err)
	}
}

func TestPutDry(t *testing.T) {
	t.Parallel()
	b := setup(t)
	diff := pgtest.Diff(t, b.db)
	o, err := b.Put(b.ctx, by[desired.Object](b.ada), change.Write{Object: skuObject("h100", 249), DryRun: true})
	if err != nil || o.Generation != 1 || diff() != "" {
		t.Errorf("%+v, %v\n%s", o, err, diff())
	}
}

// Of twenty who declare one name, one does; also where a tombstone has it.
func TestOneNameOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.race(t)
	if _, err := b.Delete(b.ctx, by[desired.Object](b.ada), desired.Name{Kind: desired.KindSKU, Name: "h100"}, 0); err != nil {
		t.Fatal(err)
	}
	b.race(t)
	if n := b.text(`SELECT count(*)::text FROM desired_objects`); n != "1" {
		t.Errorf("%s rows", n)
	}
}

func (b *bundle) race(t *testing.T) {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	won := 0
	for i := range 20 {
		all.Go(func() {
			_, err := b.put(skuObject("h100", int64(i)), 0)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				won++
			} else if errs.CodeOf(err) != errs.Conflict && errs.CodeOf(err) != errs.VersionRequired {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won != 1 {
		t.Errorf("%d declared it", won)
	}
}

// INV-14: of those who have found no value, one sets it.
func TestINV14NoPolicyIsOverwrittenUnread(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 2 {
		var all sync.WaitGroup
		var won atomic.Int32
		for i := range 8 {
			all.Go(func() {
				_, err := b.SetPolicy(b.ctx, by[change.PolicyKey](b.ada), "gitops.poll_seconds", policies.Platform, 60+i, change.Absent)
				if err == nil {
					won.Add(1)
				} else if errs.CodeOf(err) != errs.VersionMismatch {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d set it", won.Load())
		}
		// The tombstone is no value.
		if _, err := b.Delete(b.ctx, by[desired.Object](b.ada), desired.Name{Kind: desired.KindPolicy, Name: "gitops-poll-seconds"}, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// INV-14: of two who have read one version, one writes the next.
func TestINV14NoEditIsLost(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.put(skuObject("h100", 1), 0); err != nil {
		t.Fatal(err)
	}
	for version := int64(1); version <= 5; version++ {
		var both sync.WaitGroup
		var mu sync.Mutex
		won := 0
		for i := range 4 {
			both.Go(func() {
				if _, err := b.put(skuObject("h100", 100*version+int64(i)), version); err == nil {
					mu.Lock()
					won++
					mu.Unlock()
				} else if errs.CodeOf(err) != errs.VersionMismatch {
					t.Error(err)
				}
			})
		}
		both.Wait()
		if won != 1 {
			t.Fatalf("%d wrote version %d", won, version+1)
		}
	}
}

// One operator alone can neither delete nor reslice a node with live allocations.
func TestNotFromUnderAnybody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, o := range []desired.Object{skuObject("h100", 249), skuObject("a100", 99), nodeObject("n1", "h100")} {
		if _, err := b.put(o, 0); err != nil {
			t.Fatal(err)
		}
	}
	n1 := ids.Node{UUID: uuid.MustParse(b.text(`SELECT uid::text FROM desired_objects WHERE kind = 'Node'`))}
	b.setInputs(preview.Inputs{Nodes: []preview.Node{{ID: n1, Name: "n1", Held: 2}}})
	diff := pgtest.Diff(t, b.db)
	wantCode(t, "resliced", second(b.put(nodeObject("n1", "a100"), 1)), errs.NodeInUse)
	wantCode(t, "removed", second(b.Delete(b.ctx, by[desired.Object](b.ada), desired.Name{Kind: desired.KindNode, Name: "n1"}, 1)), errs.NodeInUse)
	if left := diff(); left != "" {
		t.Error(left)
	}
	cordoned := object(desired.KindNode, "n1", desired.Node{SKU: "h100", Region: "eu-1", Onboarding: "manual", GPUs: 8, Slicing: "whole_gpu", Cordoned: true})
	if _, err := b.put(cordoned, 1); err != nil {
		t.Errorf("cordoned: %v", err)
	}
	b.setInputs(preview.Inputs{})
	if o, err := b.Delete(b.ctx, by[desired.Object](b.ada), desired.Name{Kind: desired.KindNode, Name: "n1"}, 2); err != nil || o.DeletedAt == nil {
		t.Errorf("%+v, %v", o, err)
	}
}

// INV-14: a write to an object that Git owns is rejected with the file and line to edit, for every
// kind of request.
func TestINV14PeopleAndGit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.source()
	b.git(skuObject("h100", 249), object(desired.KindPolicy, "poll", desired.Policy{Key: "gitops.poll_seconds", Scope: "platform", Value: 30}))
	h100 := desired.Name{Kind: desired.KindSKU, Name: "h100"}
	diff := pgtest.Diff(t, b.db)
	for what, err := range map[string]error{
		"put":                        second(b.put(skuObject("h100", 1), 0)),
		"put a version":              second(b.put(skuObject("h100", 1), 1)),
		"delete":                     second(b.Delete(b.ctx, by[desired.Object](b.ada), h100, 0)),
		"a second that sets the key": second(b.put(object(desired.KindPolicy, "other", desired.Policy{Key: "gitops.poll_seconds", Scope: "platform", Value: 30}), 0)),
		"set":                        second(b.SetPolicy(b.ctx, by[change.PolicyKey](b.ada), "gitops.poll_seconds", policies.Platform, 60, 0)),
	} {
		wantCode(t, what, err, errs.ManagedByGit)
		if coded, ok := errors.AsType[*errs.Error](err); ok {
			if source, ok := coded.Details["source"].(desired.Source); !ok || source.Path != "fleet.yaml" || source.Line == 0 {
				t.Errorf("%s: %+v", what, coded.Details)
			}
		}
	}
	if left := diff(); left != "" {
		t.Error(left)
	}
	// To the API at once, and back within a day.
	adopt := func(to desired.Owner, source string) error {
		return second(b.Adopt(b.ctx, by[desired.Object](b.ada), h100, to, source, 0))
	}
	if err := adopt(desired.OwnerAPI, ""); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "adopted twice", adopt(desired.OwnerAPI, ""), errs.Conflict)
	wantCode(t, "to a source that is nowhere", adopt(desired.OwnerGit, "nowhere"), errs.NotFound)
	if rev, err := b.apply("c2", nil, skuObject("h100", 249)); err != nil || rev.Status != revision.StatusInvalid {
		t.Errorf("Git took it: %+v, %v", rev, err)
	}
	if err := adopt(desired.OwnerGit, "fleet"); err != nil {
		t.Fatal(err)
	}
	if rev, err := b.apply("c3", nil, skuObject("h100", 249)); err != nil || rev.Adopted != 1 {
		t.Errorf("%+v, %v", rev, err)
	}
	if b.audited() != "desired.adopt, desired.adopt" {
		t.Error(b.audited())
	}
}

func TestLeftAloneAndTakenUp(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.put(skuObject("h100", 249), 0); err != nil {
		t.Fatal(err)
	}
	n, ch := desired.Name{Kind: desired.KindSKU, Name: "h100"}, by[desired.Object](b.ada)
	past, soon := time.Now().Add(-time.Minute), time.Now().Add(time.Hour)
	wantCode(t, "until yesterday", second(b.Suspend(b.ctx, ch, n, "because", &past)), errs.ValidationError)
	o, err := b.Suspend(b.ctx, ch, n, "because", &soon)
	if err != nil || o.Suspended == nil || o.Suspended.By != b.ada.Actor() || o.Suspended.Reason != "because" {
		t.Errorf("%+v, %v", o.Suspended, err)
	}
	if o, err = b.Resume(b.ctx, ch, n); err != nil || o.Suspended != nil {
		t.Errorf("%+v, %v", o.Suspended, err)
	}
	if o, err = b.Reconcile(b.ctx, ch, n, "its drift is unexplained"); err != nil || o.Epoch != 1 || o.Generation != 1 {
		t.Errorf("%+v, %v", o, err)
	}
	none := desired.Name{Kind: desired.KindSKU, Name: "none"}
	for what, err := range map[string]error{
		"suspend": second(b.Suspend(b.ctx, ch, none, "because", nil)), "resume": second(b.Resume(b.ctx, ch, none)), "reconcile": second(b.Reconcile(b.ctx, ch, none, "x")),
		"delete": second(b.Delete(b.ctx, ch, none, 0)), "adopt": second(b.Adopt(b.ctx, ch, none, desired.OwnerAPI, "", 0)),
	} {
		wantCode(t, what, err, errs.NotFound)
	}
	if _, err := b.put(skuObject("h100", 249), o.ResourceVersion); err != nil {
		t.Error(err)
	}
	if b.audited() != "desired.put, desired.suspend, desired.resume, desired.reconcile, desired.put" {
		t.Error(b.audited())
	}
	// The last write was the same as before.
	const changed = "fleet.object_changed "
	if got := b.events(); got != changed+"put 1, "+changed+"suspend 2, "+changed+"resume 3, "+changed+"reconcile 4" {
		t.Error(got)
	}
}

func TestSources(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.source()
	ch := by[revision.SourceState](b.ada)
	woken, end := b.Hints.Listen(revision.HintSources)
	defer end()
	if s, err := b.RequestSync(b.ctx, ch, "fleet"); err != nil || s.RequestedAt == nil {
		t.Errorf("%+v, %v", s, err)
	}
	select {
	case <-woken:
	default:
		t.Error("no due row was written")
	}
	if s, err := b.SuspendSource(b.ctx, ch, "fleet", "a freeze", nil); err != nil || s.Suspended == nil || s.Suspended.By != b.ada.Actor() {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := b.ResumeSource(b.ctx, ch, "fleet"); err != nil || s.Suspended != nil {
		t.Errorf("%+v, %v", s, err)
	}
	wantCode(t, "none", second(b.RequestSync(b.ctx, ch, "none")), errs.NotFound)
	if b.audited() != "source.ask, source.suspend, source.resume" {
		t.Error(b.audited())
	}
}

// A value that only one object may have is rejected the second time: in a put, in a plan that is
// older than the first object, and where a name equals the key of another object.
func TestOnlyOneSaysIt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	poll := desired.Policy{Key: "gitops.poll_seconds", Scope: "platform", Value: 30}
	made := b.proposed(b.ada, "apiVersion: gpuaas/v1alpha1\nkind: Policy\nmetadata: {name: late}\nspec: {key: gitops.poll_seconds, scope: platform, value: 60}\n")
	if _, err := b.put(object(desired.KindPolicy, "first", poll), 0); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "a second object", second(b.put(object(desired.KindPolicy, "second", poll), 0)), errs.SpecInvalid)
	wantCode(t, "a plan from before", second(b.Apply(b.ctx, by[change.Stored](b.ada), made.ID, made.Hash)), errs.SpecInvalid)
	later := b.proposed(b.ada, "apiVersion: gpuaas/v1alpha1\nkind: Policy\nmetadata: {name: later}\nspec: {key: gitops.poll_seconds, scope: platform, value: 60}\n")
	if f := later.Plan.Findings; len(f) != 1 || f[0].Code != desired.CodePolicyInvalid || f[0].Path != "fleet.yaml" || !strings.Contains(f[0].Message, "Policy/first already, which the API owns") {
		t.Errorf("%+v", f)
	}
	set, err := b.SetPolicy(b.ctx, by[change.PolicyKey](b.ada), poll.Key, policies.Platform, 90, 0)
	if err != nil || set.Set[0].Object != "first" {
		t.Errorf("set under another name: %+v, %v", set, err)
	}
	if _, err := b.put(object(desired.KindPolicy, "gitops-max-files", desired.Policy{Key: "gitops.prune_cap_objects", Scope: "platform", Value: 7}), 0); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "under a name in use", second(b.SetPolicy(b.ctx, by[change.PolicyKey](b.ada), "gitops.max_files", policies.Platform, 900, 0)), errs.Conflict)
	image := desired.OSImage{DisplayName: "a", Digest: "sha256:" + strings.Repeat("a", 64), Default: true}
	b.git(object(desired.KindOSImage, "a", image))
	wantCode(t, "a second default image", second(b.put(object(desired.KindOSImage, "b", image), 0)), errs.ManagedByGit)
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ch := by[change.PolicyKey](b.ada)
	set, err := b.SetPolicy(b.ctx, ch, "gitops.poll_seconds", policies.Platform, float64(120), 0) // as JSON has it
	if err != nil || len(set.Set) != 1 || set.Set[0].Value != int64(120) || set.Set[0].Object != "gitops-poll-seconds" || set.Set[0].Version != 1 {
		t.Fatalf("%+v, %v", set, err)
	}
	wantCode(t, "another version", second(b.SetPolicy(b.ctx, ch, "gitops.poll_seconds", policies.Platform, 60, 7)), errs.VersionMismatch)
	if set, err = b.SetPolicy(b.ctx, ch, "gitops.poll_seconds", policies.Platform, 60, 1); err != nil || set.Set[0].Version != 2 {
		t.Errorf("%+v, %v", set, err)
	}
	for what, c := range map[string]struct {
		key, scope string
		value      any
		want       errs.Code
	}{
		"no key":            {"a.b", "platform", 1, errs.NotFound},
		"out of bounds":     {"gitops.poll_seconds", "platform", 1, errs.SpecInvalid},
		"not at this scope": {"gitops.poll_seconds", "tenant:acme", 60, errs.SpecInvalid},
		"another type":      {"gitops.poll_seconds", "platform", "often", errs.SpecInvalid},
	} {
		wantCode(t, what, second(b.SetPolicy(b.ctx, ch, c.key, policies.Scope(c.scope), c.value, 0)), c.want)
	}
	tenants := []policies.Scope{"tenant:acme", "tenant:umbrella"}
	for _, scope := range tenants {
		if _, err := b.SetPolicy(b.ctx, ch, "allocation.max_concurrent_per_tenant", scope, 5, 0); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := b.Policies(b.ctx, "allocation.", "", 1000)
	i := slices.IndexFunc(keys, func(k change.PolicyKey) bool { return k.Name == "allocation.max_concurrent_per_tenant" })
	if err != nil || i < 0 || len(keys[i].Set) != 2 || keys[i].Set[0].Scope != tenants[0] || keys[i].Set[1].Value != int64(5) {
		t.Errorf("%+v, %v", keys, err)
	}
	page, err := b.Policies(b.ctx, "allocation.", keys[1].Name, 2)
	if err != nil || len(page) != 2 || page[0].Name != keys[2].Name {
		t.Errorf("%+v, %v", page, err)
	}
	if b.audited() != "policy.set, policy.set, policy.set, policy.set" {
		t.Error(b.audited())
	}
}
