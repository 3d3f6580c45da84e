package manage_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/product/allocation/condition"
	"github.com/gpuaas/gpuaas/product/allocation/manage"
)

// The owner changes name, labels and end of a live allocation, and the desired object with them. A stale version, a
// name in use, another tenant and an ended allocation are rejected.
func TestALiveAllocationIsUpdated(t *testing.T) {
	t.Parallel()
	w, s := managed(t)
	w.Node(t, "node-1", 2)
	w.Limits.MaxTTL = 24 * time.Hour
	a, other := w.Active(t, 1), w.Active(t, 1)
	name := "calm-otter"
	got, err := s.Update(t.Context(), by(w.Caller), a.ID, a.Version, manage.Patch{Name: &name, Labels: map[string]string{"team": "speech"}, TTL: 2 * time.Hour})
	if err != nil || got.Name != name || got.Labels["team"] != "speech" || got.Version != a.Version+1 || got.State != allocation.Active {
		t.Fatalf("%+v, %v", got, err)
	}
	if left := time.Until(*got.ExpiresAt); left < 119*time.Minute || left > 2*time.Hour {
		t.Errorf("it ends in %s", left)
	}
	o := w.Declared(t, a.ID)
	if want := got.ExpiresAt.UTC().Format(time.RFC3339); o.Name != name || o.Labels["team"] != "speech" || o.Generation != 2 || !bytes.Contains(o.Spec, []byte(want[:16])) {
		t.Errorf("the desired object is %s %v generation %d: %s", o.Name, o.Labels, o.Generation, o.Spec)
	}
	history, err := s.Timeline(t.Context(), w.Caller, a.ID)
	if last := history[len(history)-1]; err != nil || last.Event != "updated" || last.From != last.To || last.Actor != w.Caller.Actor() {
		t.Errorf("the history ends with %+v, %v", last, err)
	}
	late := 48 * time.Hour
	for rule, c := range map[string]struct {
		id      ids.Allocation
		version int64
		patch   manage.Patch
		want    errs.Code
	}{
		"a stale version":      {a.ID, a.Version, manage.Patch{TTL: time.Hour}, errs.VersionMismatch},
		"a name in use":        {a.ID, 0, manage.Patch{Name: &other.Name}, errs.AlreadyExists},
		"beyond the limit":     {a.ID, 0, manage.Patch{TTL: late}, errs.ValidationError},
		"a random id":          {ids.New[ids.Allocation](), 0, manage.Patch{}, errs.NotFound},
		"one that is released": {released(t, w, other.ID), 0, manage.Patch{TTL: time.Hour}, errs.AllocationFinal},
	} {
		if _, err := s.Update(t.Context(), by(w.Caller), c.id, c.version, c.patch); errs.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", rule, err, c.want)
		}
	}
	stranger := w.Caller
	stranger.Tenant = ids.New[ids.Tenant]()
	if _, err := s.Update(t.Context(), by(stranger), a.ID, 0, manage.Patch{TTL: time.Hour}); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("another tenant: %v", err)
	}
}

func released(t *testing.T, w *allocationtest.Fixture, id ids.Allocation) ids.Allocation {
	t.Helper()
	if _, err := w.Allocations.Release(t.Context(), w.Caller, by(w.Caller).Key, id, nil); err != nil {
		t.Fatal(err)
	}
	return id
}

// A preview evaluates everything that a request would meet, and writes nothing.
func TestAPreviewNamesEveryRejection(t *testing.T) {
	t.Parallel()
	w, s := managed(t)
	w.Node(t, "node-1", 2)
	w.Active(t, 1)
	rows := func() int {
		return queryOne[int](t, w, `SELECT (SELECT count(*) FROM allocations) + (SELECT count(*) FROM slot_claims) + (SELECT count(*) FROM audit_logs) + (SELECT count(*) FROM desired_objects)`)
	}
	before := rows()
	ask := func(gpus int) manage.Preview {
		t.Helper()
		p, err := s.Preview(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: gpus, TTL: time.Hour}, false)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := ask(1); !p.Fits || p.Free != 1 || p.PerHour != 250 || p.Burn != 500 || p.Remaining != [3]int{999, 999, 999} || len(p.Rejections) != 0 || p.Runway() <= 0 {
		t.Errorf("%+v", p)
	}
	w.Limits.PerUser, w.Limits.HourlyTenant = 1, 600
	p := ask(2)
	var codes []errs.Code
	for _, e := range p.Rejections {
		codes = append(codes, e.Code)
	}
	if p.Fits || p.Position != 1 || p.Remaining[0] != 0 || len(p.Left) == 0 || !slices.Equal(codes, []errs.Code{errs.ConcurrencyLimitReached, errs.SpendLimitExceeded, errs.SKUUnavailable}) {
		t.Errorf("fits %v at %d, rejected by %v, filters %v", p.Fits, p.Position, codes, p.Left)
	}
	if after := rows(); after != before {
		t.Errorf("it wrote %d rows", after-before)
	}
	// Only the mounts exclude the node, so its other slots are no cause.
	mounts := []desired.Mount{{At: "data", ReadOnly: true}}
	withMounts, err := s.Preview(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1, Mounts: mounts}, false)
	if err != nil || withMounts.Fits || len(withMounts.Rejections) == 0 {
		t.Fatalf("%+v, %v", withMounts, err)
	}
	if last := withMounts.Rejections[len(withMounts.Rejections)-1]; last.Code != errs.SKUUnavailable || !strings.Contains(last.Message, "can mount stored objects: missing a newer agent") || last.Suggestion == "" {
		t.Errorf("a node that cannot mount: %+v", last)
	}
	if _, err := s.Preview(t.Context(), allocation.Request{Caller: w.Caller, SKU: "none", GPUs: 1}, false); errs.CodeOf(err) != errs.SKUUnknown {
		t.Errorf("an unknown SKU: %v", err)
	}
}

// Each state names the actor who must act next, and its deadline.
func TestWhyNamesTheNextActor(t *testing.T) {
	t.Parallel()
	w, s := managed(t)
	w.Node(t, "node-1", 3)
	s.ProvisionDeadline = func() time.Duration { return 10 * time.Minute }
	requested, active, releasing := w.Request(t, 1), w.Active(t, 1), w.Releasing(t, 1)
	stuck := w.Move(t, releasing.ID, func(tx pgx.Tx, a allocation.Allocation) error {
		return s.Exhaust(t.Context(), tx, a, 3, "the node rejects")
	})
	ready := condition.Observed{Reported: true, Phase: "ready"}
	faulty := condition.Observed{Reported: true, Phase: "ready", Fault: "a GPU is lost", FaultSince: time.Now()}
	for rule, c := range map[string]struct {
		a       allocation.Allocation
		seen    condition.Observed
		owner   string
		ends    time.Duration // after the start of the state; 0: no deadline
		message string
	}{
		"provisioning":   {requested, condition.Observed{}, "node", 10 * time.Minute, ""},
		"releasing":      {releasing, condition.Observed{}, "node", 15 * time.Minute, ""},
		"active":         {active, ready, "none", 0, ""},
		"a silent node":  {active, condition.Observed{Phase: "ready"}, "operator", 0, "the node has not reported the allocation"},
		"a faulty GPU":   {active, faulty, "operator", 0, "a GPU is lost"},
		"release_failed": {stuck, condition.Observed{}, "operator", 0, "the node rejects"},
	} {
		got := s.Explain(c.a, c.seen)
		if got.Owner != c.owner || got.Waits != (c.owner != "none") || c.message != "" && got.Message != c.message {
			t.Errorf("%s: %+v", rule, got)
		}
		if c.ends == 0 && got.DeadlineAt != nil || c.ends > 0 && (got.DeadlineAt == nil || !got.DeadlineAt.Equal(c.a.StatusAt.Add(c.ends))) {
			t.Errorf("%s: until %v", rule, got.DeadlineAt)
		}
	}
}
