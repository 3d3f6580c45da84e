package jobs_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/agent/wire"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
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

// ends has the node answer an order.
func (b *bundle) ends(e wire.Envelope, o wire.Outcome) {
	b.t.Helper()
	b.Do(b.t, func(tx pgx.Tx) error {
		_, err := b.deps.Tasks.Finish(b.t.Context(), tx, b.node, wire.Result{
			Task: e.Task, Allocation: e.Allocation, Fence: e.Fence, Attempt: e.Attempt, Generation: e.Generation, Outcome: o,
		})
		return err
	})
}

// ensured is the order that the node gets when it is asked for.
func (b *bundle) ensured(a allocation.Allocation) (wire.Envelope, wire.Order) {
	b.t.Helper()
	b.done(b.ensure(a))
	return b.order()
}

const authority = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl authority"

func setupLogins(t *testing.T) (*bundle, *jobs.Logins) {
	t.Helper()
	b, l := setup(t), &jobs.Logins{Limits: wire.Limits{MemoryMiB: 1024, HomeGiB: 7}, StopAfterHours: 3}
	b.deps.Logins = func(sku, region string) jobs.Logins {
		if sku != allocationtest.SKU {
			t.Errorf("asked for %q in %q", sku, region)
		}
		return *l
	}
	b.deps.UserCA = func() []string { return []string{authority} }
	b.speaks(wire.Capability)
	return b, l
}

// What a policy says, and who signs certificates, goes with the order.
func TestEnsureCarriesLimitsAndAuthorities(t *testing.T) {
	t.Parallel()
	b, l := setupLogins(t)
	a := b.Active(t, 1)
	e, o := b.ensured(a)
	if e.Type != wire.ProvisionUser || o.Limits != l.Limits || o.StopAfterHours != 3 || !slices.Equal(o.UserCA, []string{authority}) || o.Principal != a.ID.String() {
		t.Errorf("%s %+v", e.Type, o)
	}
}

// An agent of the build before refuses what it does not know, so it is not told.
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
		t.Errorf("told %s", e.Params)
	}
}

// KEY-01: when only who logs in has changed, the host is told no more. When that
// fails, or anything else differs, it is told all.
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
	is := func(what string, want wire.Type, fence int64, keys int) wire.Envelope {
		t.Helper()
		e, o := b.ensured(a)
		if e.Type != want || e.Fence != fence || len(o.PublicKeys) != keys || !slices.Equal(o.UserCA, []string{authority}) {
			t.Errorf("%s: %s at fence %d with %d keys, want %s at %d with %d", what, e.Type, e.Fence, len(o.PublicKeys), want, fence, keys)
		}
		return e
	}

	first := is("the first order", wire.ProvisionUser, 1, 1)
	rekey()
	second := is("keys while it is being made", wire.ProvisionUser, 2, 2)
	b.ends(second, wire.Succeeded)
	if first.Task == second.Task {
		t.Error("one task for two orders")
	}
	rekey()
	third := is("other keys", wire.RotateKeys, 3, 3)
	b.ends(third, wire.Succeeded)
	is("drift after that", wire.ProvisionUser, 3, 3)
	rekey()
	b.ends(is("keys while drift is healed", wire.ProvisionUser, 4, 4), wire.Succeeded)
	rekey()
	b.ends(is("other keys again", wire.RotateKeys, 5, 5), wire.Failed)
	fifth := is("when the rotation failed", wire.ProvisionUser, 5, 5)
	if fifth.Attempt != 2 {
		t.Errorf("attempt %d", fifth.Attempt)
	}
	b.ends(fifth, wire.Succeeded)
	rekey()
	b.ends(is("a rotation after a rotation", wire.RotateKeys, 6, 6), wire.Succeeded)
	rekey()
	b.ends(is("and another", wire.RotateKeys, 7, 7), wire.Succeeded)
	limits.Limits.MemoryMiB = 2048
	rekey()
	is("other keys and other limits", wire.ProvisionUser, 8, 8)
}
