package jobs_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/protocol"
)

// keys returns the service that changes SSH keys. Without rekeys, no allocation follows a change.
func (b *bundle) keys() *keys.Service {
	return &keys.Service{Service: b.Allocations.Identity, Jobs: b.rekeys}
}

func (b *bundle) addKey(name string) keys.SSHKey {
	b.t.Helper()
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		b.t.Fatal(err)
	}
	k, err := b.keys().AddSSHKey(b.asCaller(), identity.Change[keys.SSHKey]{Caller: b.Caller}, name, string(ssh.MarshalAuthorizedKey(key)))
	if err != nil {
		b.t.Fatal(err)
	}
	return k
}

// asCaller returns the scope that the middleware sets.
func (b *bundle) asCaller() context.Context {
	return pg.WithScope(b.t.Context(), pg.Scope{Tenant: b.Caller.Tenant.String(), Principal: b.Caller.Principal().String()})
}

func (b *bundle) deleteKey(id ids.SSHKey) {
	b.t.Helper()
	if err := b.keys().DeleteSSHKey(b.asCaller(), identity.Change[struct{}]{Caller: b.Caller}, id); err != nil {
		b.t.Fatal(err)
	}
}

// rekeyed waits until nothing is left of what changes of keys have enqueued.
func (b *bundle) rekeyed() {
	b.t.Helper()
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if b.count(`SELECT count(*) FROM river.river_job WHERE kind = 'rekey_allocations' AND finalized_at IS NULL`) == 0 {
			return
		}
	}
	b.t.Fatal("the keys were not carried on")
}

func (b *bundle) opens(what string, a allocation.Allocation, fence int64, with ...keys.SSHKey) {
	b.t.Helper()
	o := b.Declared(b.t, a.ID)
	var spec desired.Allocation
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		b.t.Fatal(err)
	}
	want := []string{}
	for _, k := range with {
		want = append(want, k.PublicKey)
	}
	if !slices.Equal(spec.Keys, want) || o.Fence != fence {
		b.t.Errorf("%s: opened at fence %d by %q, want at %d by %q", what, o.Fence, spec.Keys, fence, want)
	}
}

// KEY-01: a change of a user's keys reaches the user's live allocations.
func TestKeysReachLiveAllocations(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.rekeys, b.Allocations.Identity.DB = b.client, pgtest.Scoped(t, b.DB)
	first, second := b.addKey("first"), b.addKey("second")
	all := b.Active(t, 1)
	named, err := b.Allocations.Request(t.Context(), allocation.Request{Caller: b.Caller, SKU: allocationtest.SKU, GPUs: 1, Name: "named", SSHKeys: []ids.SSHKey{first.ID}})
	if err != nil {
		t.Fatal(err)
	}
	over := b.Releasing(t, 1)
	other, err := b.Allocations.Request(t.Context(), allocation.Request{Caller: b.Operator, SKU: allocationtest.SKU, GPUs: 1, Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	b.rekeyed()
	b.opens("at first", all, 1, first, second)

	third := b.addKey("third")
	b.rekeyed()
	b.opens("all keys", all, 2, first, second, third)
	b.opens("named keys", named, 1, first)
	b.opens("a tombstone", over, 2, first, second)
	b.opens("another's", other, 1)

	b.deleteKey(first.ID)
	b.rekeyed()
	b.opens("all keys but one", all, 3, second, third)
	b.opens("named keys but one", named, 2)
	b.opens("a tombstone", over, 2, first, second)

	b.deleteKey(third.ID)
	b.rekeyed()
	b.opens("all but two", all, 4, second)
	b.opens("named keys without the third", named, 2)

	// The loop queues a task for the changed object, and the node receives the new keys.
	b.done(b.ensure(all))
	if e, o := b.pendingTask(); e.Allocation != all.ID || e.Fence != 4 || e.Type != protocol.ProvisionUser || !slices.Equal(o.PublicKeys, []string{second.PublicKey}) {
		t.Errorf("ordered %+v %+v", e, o)
	}
	if b.state(all) != allocation.Active {
		t.Errorf("it became %s", b.state(all))
	}
	b.twice(keys.RekeyAllocations{Principal: b.Caller.Principal()})

	// The same with no more rights than a server that works has.
	b.rekeys = nil
	b.deleteKey(second.ID)
	err = pgx.BeginFunc(t.Context(), pgtest.As(t, b.DB, "gpuaas_work"), func(tx pgx.Tx) error {
		return b.Allocations.Rekey(t.Context(), tx, b.Caller.Principal())
	})
	if err != nil {
		t.Error(err)
	}
	b.opens("no keys", all, 5)
}

// An allocation that is created while a key is deleted does not contain the key.
func TestADeletedKeyOpensNothingThatIsBeingMade(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Node(t, "node-2", 8)
	b.rekeys = b.client
	for range 8 {
		key := b.addKey("key")
		done := make(chan error)
		go func() {
			_, err := b.Allocations.Request(t.Context(), allocation.Request{Caller: b.Caller, SKU: allocationtest.SKU, GPUs: 1})
			done <- err
		}()
		b.deleteKey(key.ID)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		b.rekeyed()
		if n := b.count(`SELECT count(*) FROM desired_objects WHERE kind = 'Allocation' AND strpos(spec::text, $1) > 0`, strings.Fields(key.PublicKey)[1]); n != 0 {
			t.Fatalf("%d allocations are opened by a deleted key", n)
		}
	}
}

// The request locks its user's key version, so a deletion between its read of the keys and its
// transaction is detected.
func TestKeysThatChangedAreReadAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key := b.addKey("key")
	stale := &pgx.Batch{}
	identity.QueueLock(stale, b.Caller)
	keys.QueueAuthorizedKeys(stale, b.Caller, nil, []string{key.PublicKey})
	if err := b.DB.SendBatch(t.Context(), stale).Close(); err != nil {
		t.Errorf("as they were read: %v", err)
	}
	b.deleteKey(key.ID)
	stale = &pgx.Batch{}
	keys.QueueAuthorizedKeys(stale, b.Caller, nil, []string{key.PublicKey})
	if err := b.DB.SendBatch(t.Context(), stale).Close(); err != keys.ErrChanged { //nolint:errorlint // a callback's error, unwrapped
		t.Errorf("after one was deleted: %v", err)
	}
	_, err := b.Allocations.Request(t.Context(), allocation.Request{Caller: b.Caller, SKU: allocationtest.SKU, GPUs: 1, SSHKeys: []ids.SSHKey{key.ID}})
	if errs.CodeOf(err) != errs.NotFound {
		t.Errorf("a deleted key that is named: %v", err)
	}
}

// A request may use the keys that an earlier one has read. Its transaction detects that they have changed since.
func TestCachedKeysAreComparedInTheTransaction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	opens := func(key string) bool {
		t.Helper()
		a, err := b.Allocations.Request(t.Context(), allocation.Request{Caller: b.Caller, SKU: allocationtest.SKU, GPUs: 1})
		if err != nil {
			t.Fatal(err)
		}
		return b.count(`SELECT count(*) FROM desired_objects WHERE uid = $1 AND strpos(spec::text, $2) > 0`, a.ID, key) == 1
	}
	first := b.addKey("first")
	if !opens(strings.Fields(first.PublicKey)[1]) {
		t.Error("the first key opens no allocation")
	}
	second := b.addKey("second")
	if !opens(strings.Fields(second.PublicKey)[1]) {
		t.Error("the key that was added since opens no allocation")
	}
	b.deleteKey(first.ID)
	if opens(strings.Fields(first.PublicKey)[1]) {
		t.Error("a deleted key opens an allocation")
	}
}
