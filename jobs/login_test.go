package jobs_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/access"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/protocol"
)

// speaks has the node report with a capability.
func (b *bundle) speaks(capability int) {
	b.t.Helper()
	b.sequence++
	b.Do(b.t, func(tx pgx.Tx) error {
		r := allocationtest.Report(b.node, 4)
		r.Sequence, r.Capability = b.sequence, capability
		_, err := b.deps.Observed.Report(b.t.Context(), tx, b.node, r, time.Minute)
		return err
	})
}

// ends makes the node report the result of a task.
func (b *bundle) ends(e protocol.Envelope, o protocol.Outcome) {
	b.t.Helper()
	b.Do(b.t, func(tx pgx.Tx) error {
		_, err := b.deps.Tasks.Finish(b.t.Context(), tx, b.node, protocol.Result{
			Task: e.Task, Allocation: e.Allocation, Fence: e.Fence, Attempt: e.Attempt, Generation: e.Generation, Outcome: o,
		})
		return err
	})
}

// ensured returns the task that a node gets for an allocation.
func (b *bundle) ensured(a allocation.Allocation) (protocol.Envelope, protocol.AllocationParams) {
	b.t.Helper()
	b.done(b.ensure(a))
	return b.pendingTask()
}

const authority = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl authority"

func setupLogins(t *testing.T) (*bundle, *jobs.Logins) {
	t.Helper()
	b, l := setup(t), &jobs.Logins{Limits: protocol.Limits{MemoryMiB: 1024, HomeGiB: 7}, StopAfterHours: 3}
	b.deps.Logins = func(sku, region string) jobs.Logins {
		if sku != allocationtest.SKU {
			t.Errorf("requested %q in %q", sku, region)
		}
		return *l
	}
	b.deps.UserCA = func() []string { return []string{authority} }
	b.speaks(protocol.Capability)
	return b, l
}

// The task contains the limits of the policies and the certificate authorities.
func TestEnsureCarriesLimitsAndAuthorities(t *testing.T) {
	t.Parallel()
	b, l := setupLogins(t)
	a := b.Active(t, 1)
	e, o := b.ensured(a)
	if e.Type != protocol.ProvisionUser || o.Limits != l.Limits || o.StopAfterHours != 3 || !slices.Equal(o.UserCA, []string{authority}) || o.Principal != a.ID.String() {
		t.Errorf("%s %+v", e.Type, o)
	}
}

// An agent of the previous release rejects unknown parameters, so the task omits them.
func TestEnsureForAnOlderAgent(t *testing.T) {
	t.Parallel()
	b, _ := setupLogins(t)
	b.speaks(1)
	e, o := b.ensured(b.Active(t, 1))
	var fields map[string]any
	if err := json.Unmarshal(e.Params, &fields); err != nil {
		t.Fatal(err)
	}
	if len(fields) != 4 || o.Principal != "" {
		t.Errorf("sent %s", e.Params)
	}
}

// A task has the mounts of the spec, with the endpoint of the time of the placement. An agent that is too old gets the rest.
func TestEnsureCarriesTheMounts(t *testing.T) {
	t.Parallel()
	b, _ := setupLogins(t)
	b.Do(t, func(tx pgx.Tx) error {
		r := allocationtest.Report(b.node, 4)
		r.Mounts = &protocol.MountSupport{Supported: true}
		return b.Inventory.ApplyReport(t.Context(), tx, b.node, r)
	})
	ensured := func() (allocation.Allocation, *protocol.Storage) {
		a, err := b.Allocations.Request(t.Context(), allocation.Request{Caller: b.Caller, SKU: allocationtest.SKU, GPUs: 1, Mounts: []desired.Mount{{Path: "runs", At: "out"}}})
		if err != nil {
			t.Fatal(err)
		}
		b.MountKeys.MountURL = func() string { return "https://another.example" }
		_, o := b.ensured(a)
		return a, o.Storage
	}
	a, got := ensured()
	if want := (protocol.Storage{Endpoint: "https://s3.example", Bucket: a.Project.String(), Mounts: []protocol.Mount{{Path: "runs", At: "out"}}}); got == nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("%+v", got)
	}
	b.speaks(protocol.MountCapability - 1)
	if _, got := ensured(); got != nil {
		t.Errorf("an older agent: %+v", got)
	}
}

// A task has the rules of the policies, and an agent that does not know them gets none. Other rules alone are a rotation.
func TestEnsureCarriesTheRulesForLogins(t *testing.T) {
	t.Parallel()
	b, _ := setupLogins(t)
	rules := access.Rules{Forwarding: true}
	b.deps.Access.Rules = func(tenant ids.Tenant, project ids.Project) access.Rules {
		if tenant != b.Caller.Tenant || project != b.Caller.Project {
			t.Errorf("the rules of %s and %s", tenant, project)
		}
		return rules
	}
	a := b.Active(t, 1)
	marked := func() (text string) {
		t.Helper()
		if err := b.DB.QueryRow(t.Context(), `SELECT access_rules FROM allocations WHERE id = $1`, a.ID).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	b.speaks(protocol.AccessCapability - 1)
	e, o := b.ensured(a)
	if o.Access != (protocol.Access{}) || marked() != "" {
		t.Errorf("an older agent gets %s, marked %q", e.Params, marked())
	}
	b.ends(e, protocol.Succeeded)
	b.speaks(protocol.AccessCapability)
	next := func(now access.Rules, want protocol.Access) {
		t.Helper()
		rules = now
		b.done(jobs.SendAccess{})
		e, o := b.ensured(a)
		if e.Type != protocol.RotateKeys || o.Access != want || len(o.UserCA) != 1 {
			t.Errorf("%+v: %s %+v", now, e.Type, o)
		}
		b.ends(e, protocol.Succeeded)
	}
	next(access.Rules{Forwarding: true}, protocol.Access{LoginFrom: protocol.FromLoopback, Forwarding: protocol.ForwardLocal})
	if due := jobs.Due(b.deps, jobs.SendAccess{}.Kind()); due != nil || marked() != "loopback/local" {
		t.Errorf("%v is due after %q", due, marked())
	}
	next(access.Rules{DirectLogin: true}, protocol.Access{})
	next(access.Rules{}, protocol.Access{LoginFrom: protocol.FromLoopback})
	if e, o := b.ensured(a); e.Type != protocol.ProvisionUser || o.LoginFrom != protocol.FromLoopback {
		t.Errorf("a repair: %s %+v", e.Type, o)
	} else {
		b.ends(e, protocol.Succeeded)
	}
	// There and back: before the task for the first change exists, and while it is on its way.
	rules = access.Rules{DirectLogin: true}
	b.done(jobs.SendAccess{})
	next(access.Rules{}, protocol.Access{LoginFrom: protocol.FromLoopback})
	rules = access.Rules{DirectLogin: true}
	b.done(jobs.SendAccess{})
	b.ensured(a)
	next(access.Rules{}, protocol.Access{LoginFrom: protocol.FromLoopback})
}

// KEY-01: if only the login keys differ, the task changes nothing else. If that task fails, or
// anything else differs, the node receives the complete task.
func TestARotationOfKeysIsNoProvisioning(t *testing.T) {
	t.Parallel()
	b, limits := setupLogins(t)
	b.addKey("first")
	a := b.Active(t, 1)
	rekey := func() {
		t.Helper()
		b.addKey("more-" + ids.New[ids.SSHKey]().String())
		b.Do(t, func(tx pgx.Tx) error { return b.Allocations.Rekey(t.Context(), tx, b.Caller.Principal()) })
	}
	is := func(what string, want protocol.Type, fence int64, keys int) protocol.Envelope {
		t.Helper()
		e, o := b.ensured(a)
		if e.Type != want || e.Fence != fence || len(o.PublicKeys) != keys || !slices.Equal(o.UserCA, []string{authority}) {
			t.Errorf("%s: %s at fence %d with %d keys, want %s at %d with %d", what, e.Type, e.Fence, len(o.PublicKeys), want, fence, keys)
		}
		return e
	}

	first := is("the first task", protocol.ProvisionUser, 1, 1)
	rekey()
	second := is("keys while it is being made", protocol.ProvisionUser, 2, 2)
	b.ends(second, protocol.Succeeded)
	if first.Task == second.Task {
		t.Error("one task for two requests")
	}
	rekey()
	third := is("other keys", protocol.RotateKeys, 3, 3)
	b.ends(third, protocol.Succeeded)
	is("drift after that", protocol.ProvisionUser, 3, 3)
	rekey()
	b.ends(is("keys while drift is healed", protocol.ProvisionUser, 4, 4), protocol.Succeeded)
	rekey()
	b.ends(is("other keys again", protocol.RotateKeys, 5, 5), protocol.Failed)
	fifth := is("when the rotation failed", protocol.ProvisionUser, 5, 5)
	if fifth.Attempt != 2 {
		t.Errorf("attempt %d", fifth.Attempt)
	}
	b.ends(fifth, protocol.Succeeded)
	rekey()
	b.ends(is("a rotation after a rotation", protocol.RotateKeys, 6, 6), protocol.Succeeded)
	rekey()
	b.ends(is("and another", protocol.RotateKeys, 7, 7), protocol.Succeeded)
	limits.Limits.MemoryMiB = 2048
	rekey()
	is("other keys and other limits", protocol.ProvisionUser, 8, 8)
}
