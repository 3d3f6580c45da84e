package runner_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/storagekey"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// mounting is a provisioning with mounts, whose access keys the node has.
func (b *bundle) mounting(a ids.Allocation, fence int64, mounts ...string) protocol.Envelope {
	b.t.Helper()
	s := &protocol.Storage{Endpoint: "http://10.1.2.3:9000", Bucket: uuid.NewString()}
	g := storagekey.Grant{}
	for _, at := range mounts {
		s.Mounts = append(s.Mounts, protocol.Mount{At: at})
		g.Keys = append(g.Keys, protocol.MountKey{At: at, AccessKeyID: "GK1", Secret: "s1"})
	}
	b.host.StorageKeys = &storagekey.Store{}
	b.host.StorageKeys.Put(200001, g)
	return b.envelope(a, fence, protocol.ProvisionUser, protocol.ProvisionUserParams{User: "t-1", UID: 200001, PublicKeys: []string{tenantKey}, GPUs: b.gpus[:1], Storage: s}, b.gpus[:1])
}

func (b *bundle) report() protocol.AllocationReport {
	b.t.Helper()
	state, err := b.host.Inspect(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return b.Observe(state)[0]
}

// A missing mount is reported and mounted again, and the allocation stays ready: its meter runs, and the control plane
// provisions nothing again.
func TestAMissingMountIsNotBroken(t *testing.T) {
	t.Parallel()
	b, a := setup(t), ids.New[ids.Allocation]()
	if r := b.do(b.mounting(a, 1, "data", "out")); r.Outcome != protocol.Succeeded {
		t.Fatalf("%+v", r)
	}
	lose := func(h *sim.Host) { h.Accounts["t-1"].Storage = nil }
	b.edit(lose)
	if r := b.report(); r.Phase != protocol.Ready || len(r.Mounts) != 2 || r.Mounts[0].Mounted || r.Mounts[0].Message == "" {
		t.Errorf("%+v", r)
	}
	mounted := func() bool { r := b.report(); return r.Phase == protocol.Ready && r.Mounts[1].Mounted }
	b.Remount(t.Context())
	b.until("a mount", mounted)

	// While the control plane is away, too; and the login is repaired although nothing can be mounted.
	b.edit(func(h *sim.Host) {
		lose(h)
		h.Accounts["t-1"].Keys = nil
		h.Fails = map[string]string{"mount": "the storage is away"}
	})
	b.Enforce(t.Context(), time.Hour)
	b.until("a login", func() bool { r := b.report(); return r.Phase == protocol.Ready && !r.Mounts[0].Mounted })
	b.edit(func(h *sim.Host) { h.Fails = nil })
	b.until("a mount", func() bool { b.Enforce(t.Context(), time.Hour); return mounted() })
}

// What could not be stored is in the proof of the release, which ends all the same.
func TestFilesThatWereNotStoredAreInTheProof(t *testing.T) {
	t.Parallel()
	b, a := setup(t), ids.New[ids.Allocation]()
	if r := b.do(b.mounting(a, 1, "data")); r.Outcome != protocol.Succeeded {
		t.Fatalf("%+v", r)
	}
	if got := b.Storage(); len(got) != 1 || got[0].Allocation != a || got[0].UID != 200001 {
		t.Errorf("%+v", got)
	}
	b.edit(func(h *sim.Host) { h.Accounts["t-1"].NotStored = 3 })
	r := b.do(b.revoke(a, 2, b.gpus[0]))
	if r.Outcome != protocol.Succeeded || !slices.Contains(r.Proof.Checks, "mounts: 3 files were not stored") || !r.Proof.Clean(b.gpus[:1]) {
		t.Errorf("%+v %+v", r, r.Proof)
	}
	if got := b.Storage(); len(got) != 0 {
		t.Errorf("after the release: %+v", got)
	}
	if _, found, err := sim.ReadMounts(b.dir, "t-1"); found || err != nil {
		t.Errorf("the access keys stay: %v", err)
	}
}

// A provisioning without its mounts fails with the cause, and nothing of it stays.
func TestAProvisioningWithoutItsMounts(t *testing.T) {
	t.Parallel()
	b, a := setup(t), ids.New[ids.Allocation]()
	e := b.mounting(a, 1, "data")
	b.edit(func(h *sim.Host) { h.Fails = map[string]string{"mount": "fusermount3: no such device"} })
	if r := b.do(e); r.Outcome != protocol.Failed || r.Step != "storage" || !strings.Contains(r.Message, "no such device") {
		t.Errorf("%+v", r)
	}
	h, err := sim.Read(sim.Path(b.dir))
	if err != nil || len(h.Accounts) != 0 {
		t.Errorf("%+v, %v", h.Accounts, err)
	}
}
