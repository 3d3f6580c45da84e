package change

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/condition"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/reconciler"
)

// Sync and health are two axes: an applied object may be unhealthy, and a healthy one may still have an older spec.
func TestStatesOfObjects(t *testing.T) {
	t.Parallel()

	at := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	appliedSpec := func(generation int64) *observed.AppliedSpec {
		return &observed.AppliedSpec{Applied: observed.Applied{Generation: generation, SpecHash: "h"}, ObservedAt: at}
	}
	failing := func(times int) *observed.AppliedSpec {
		return &observed.AppliedSpec{Applied: observed.Applied{ApplyFailures: observed.ApplyFailures{Failures: times, FailedGeneration: 2}}, ObservedAt: at, Failure: "no"}
	}
	node := func(change func(*fleet.Node)) *fleet.Node {
		n := fleet.Node{Lifecycle: "active", Health: "healthy", Reachability: "reachable", UpdatedAt: at}
		change(&n)
		return &n
	}
	alloc := func(s allocation.State) *allocation.Allocation {
		return &allocation.Allocation{State: s, StatusAt: at, ActiveAt: &at, Node: ids.New[ids.Node]()}
	}
	healthy := func(*fleet.Node) {}
	for what, c := range map[string]struct {
		kind  desired.Kind
		seen  ObservedObject
		want  string             // sync, health, status of Ready
		holds oapi.ConditionType // another condition that is True
	}{
		"a SKU that was applied":              {desired.KindSKU, ObservedObject{AppliedSpec: appliedSpec(2)}, "Synced Healthy True", ""},
		"a SKU of an older generation":        {desired.KindSKU, ObservedObject{AppliedSpec: appliedSpec(1)}, "OutOfSync Progressing False", "Reconciling"},
		"a SKU that failed twice":             {desired.KindSKU, ObservedObject{AppliedSpec: failing(2), RetryLimit: 3}, "OutOfSync Progressing False", "Reconciling"},
		"a SKU that failed too often":         {desired.KindSKU, ObservedObject{AppliedSpec: failing(3), RetryLimit: 3}, "OutOfSync Degraded False", "Stalled"},
		"a SKU that was not observed":         {desired.KindSKU, ObservedObject{}, "OutOfSync Progressing False", "Reconciling"},
		"a row that was edited":               {desired.KindSKU, ObservedObject{AppliedSpec: appliedSpec(2), Drifts: []reconciler.Drift{{Field: "price", OpenedAt: at}}}, "OutOfSync Healthy True", "Drifted"},
		"a profile that needs a restart":      {desired.KindEnvironment, ObservedObject{AppliedSpec: appliedSpec(2), RestartFor: []string{"region"}}, "Synced Healthy True", "RestartRequired"},
		"a node at work":                      {desired.KindNode, ObservedObject{AppliedSpec: appliedSpec(2), Node: node(healthy)}, "Synced Healthy True", "Schedulable"},
		"a node without an agent":             {desired.KindNode, ObservedObject{AppliedSpec: appliedSpec(2)}, "Synced Missing False", ""},
		"a node that waits for its agent":     {desired.KindNode, ObservedObject{AppliedSpec: appliedSpec(2), Node: node(func(n *fleet.Node) { n.Lifecycle = "declared" })}, "Synced Progressing False", ""},
		"a silent node":                       {desired.KindNode, ObservedObject{AppliedSpec: appliedSpec(2), Node: node(func(n *fleet.Node) { n.Reachability = "stale" })}, "Synced Degraded Unknown", "GPUHealthy"},
		"a sick node":                         {desired.KindNode, ObservedObject{AppliedSpec: appliedSpec(2), Node: node(func(n *fleet.Node) { n.Health = "degraded" })}, "Synced Degraded False", "AgentReachable"},
		"a node of an older spec, which goes": {desired.KindNode, ObservedObject{AppliedSpec: appliedSpec(1), Node: node(healthy)}, "OutOfSync Progressing False", "Reconciling"},
		"an allocation in use":                {desired.KindAllocation, ObservedObject{Allocation: alloc(allocation.Active), Host: condition.Observed{Reported: true, Phase: "ready", Generation: 2}}, "Synced Healthy True", "Provisioned"},
		"an allocation that broke":            {desired.KindAllocation, ObservedObject{Allocation: alloc(allocation.Active), Host: condition.Observed{Reported: true, Phase: "broken", Generation: 2}}, "OutOfSync Degraded False", "Drifted"},
		"an allocation on its way":            {desired.KindAllocation, ObservedObject{Allocation: alloc(allocation.Provisioning)}, "OutOfSync Progressing False", "Reconciling"},
		"an allocation that ended":            {desired.KindAllocation, ObservedObject{Allocation: alloc(allocation.Released)}, "Synced Missing True", ""},
		"an allocation that was given up":     {desired.KindAllocation, ObservedObject{Allocation: alloc(allocation.Failed)}, "OutOfSync Degraded False", "Stalled"},
		"an allocation without a record":      {desired.KindAllocation, ObservedObject{}, "Unknown Unknown Unknown", ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			o := desired.Object{Kind: c.kind, Name: "x", Generation: 2, SpecHash: "h"}
			is := stateOf(o, c.seen)
			if got := string(is.Sync) + " " + string(is.Health) + " " + string(is.Conditions[0].Status); got != c.want || is.Conditions[0].Type != "Ready" {
				t.Errorf("is %s, want %s; %+v", got, c.want, is.Conditions)
			}
			if c.holds != "" && !holds(is, c.holds) {
				t.Errorf("%s is not True: %+v", c.holds, is.Conditions)
			}
			o.Suspended = &desired.Suspension{By: "user:ada", Reason: "fans", At: at}
			if held := stateOf(o, c.seen); held.Health != oapi.ObjectStatusHealthSuspended || held.Sync != is.Sync || !holds(held, "Suspended") {
				t.Errorf("suspended: %+v", held)
			}
		})
	}
}

func holds(s oapi.ObjectStatus, kind oapi.ConditionType) bool {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c.Status == isTrue
		}
	}
	return false
}

// An object without an effect states the cause, and a node that waits states who must act.
func TestWhatHasNoEffectSaysWhy(t *testing.T) {
	t.Parallel()
	applied := &observed.AppliedSpec{Applied: observed.Applied{Generation: 1, SpecHash: "h"}}
	declared := &fleet.Node{Lifecycle: "declared"}
	for name, c := range map[string]struct {
		object        desired.Object
		node          *fleet.Node
		reason, words string
	}{
		"an image":         {desired.Object{Kind: desired.KindOSImage}, nil, "NotInForce", "no driver installs images"},
		"a simulated node": {desired.Object{Kind: desired.KindNode, Name: "n1", Spec: []byte(`{"onboarding":"simulated"}`)}, declared, "Progressing", "node n1 has not enrolled: only gpuaas up"},
		"another node":     {desired.Object{Kind: desired.KindNode, Name: "n1", Spec: []byte(`{"onboarding":"manual"}`)}, declared, "Progressing", "an operator must install its agent"},
	} {
		c.object.Generation, c.object.SpecHash = 1, "h"
		ready := stateOf(c.object, ObservedObject{AppliedSpec: applied, Node: c.node}).Conditions[0]
		if string(ready.Type) != "Ready" || string(ready.Reason) != c.reason || !strings.Contains(ready.Message, c.words) {
			t.Errorf("%s: %+v", name, ready)
		}
	}
}
