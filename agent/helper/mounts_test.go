package helper_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/agent/helper"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// The helper requests access keys with an event, and accepts only those that fit the signed task.
func TestAccessKeysOverTheSocket(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.start()
	c, h := b.connect()
	wait(t, "a greeting", h.met)
	wait(t, "the event of a new connection", h.keys)
	id := ids.New[ids.Allocation]()
	e := b.envelope(id, 1, protocol.ProvisionUser, protocol.ProvisionUserParams{
		User: "t-1", UID: 200001, PublicKeys: []string{tenantKey}, GPUs: b.gpus[:1],
		Storage: &protocol.Storage{Endpoint: "https://s3.example.org", Bucket: uuid.NewString(), Mounts: []protocol.Mount{{At: "data"}, {At: "out"}}},
	}, b.gpus[0])
	if a, err := c.Receive(t.Context(), b.sign(e)); err != nil || a.Rejection != nil {
		t.Fatal(a.Rejection, err)
	}
	wait(t, "a step that waits for keys", h.keys)
	wants, err := c.KeyWants(t.Context())
	if err != nil || len(wants) != 1 || wants[0].Allocation != id || wants[0].Name != "s3.example.org" || !wants[0].ExpiresAt.IsZero() {
		t.Fatalf("%+v, %v", wants, err)
	}
	keys := &protocol.MountKeys{ExpiresAt: b.now().Add(time.Hour), Keys: []protocol.MountKey{{At: "data", AccessKeyID: "GK1", Secret: "s1"}, {At: "out", AccessKeyID: "GK2", Secret: "s2"}}}
	at := []netip.Addr{netip.MustParseAddr("203.0.113.7")}
	for what, bad := range map[string]helper.KeyGrant{
		"the address of the node's own services": {Allocation: id, Keys: keys, Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
		"one mount less":                         {Allocation: id, Keys: &protocol.MountKeys{Keys: keys.Keys[:1]}, Addresses: at},
		"a secret of two lines":                  {Allocation: id, Keys: &protocol.MountKeys{Keys: []protocol.MountKey{keys.Keys[0], {At: "out", AccessKeyID: "GK2", Secret: "a\nb"}}}, Addresses: at},
	} {
		if err := c.GrantKeys(t.Context(), bad); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	if err := c.GrantKeys(t.Context(), helper.KeyGrant{Allocation: ids.New[ids.Allocation](), Keys: keys, Addresses: at}); err != nil {
		t.Errorf("keys of an allocation that is not here: %v", err)
	}
	if err := c.GrantKeys(t.Context(), helper.KeyGrant{Allocation: id, Keys: keys, Addresses: at}); err != nil {
		t.Fatal(err)
	}
	if r := b.result(c, h, e); r.Outcome != protocol.Succeeded {
		t.Fatalf("%+v", r)
	}
	report, err := c.Inspect(t.Context())
	if err != nil || report.Mounts == nil || !report.Mounts.Supported || len(report.Allocations[0].Mounts) != 2 || !report.Allocations[0].Mounts[1].Mounted {
		t.Errorf("%+v, %v", report, err)
	}
	if wants, err := c.KeyWants(t.Context()); err != nil || len(wants) != 1 || !wants[0].ExpiresAt.Equal(keys.ExpiresAt) {
		t.Errorf("%+v, %v", wants, err)
	}
	// The keys are in memory only: after a start they are requested again.
	b.stop()
	b.start()
	wait(t, "a greeting", h.met)
	if wants, err := c.KeyWants(t.Context()); err != nil || len(wants) != 1 || !wants[0].ExpiresAt.IsZero() {
		t.Errorf("%+v, %v", wants, err)
	}
	out := b.revoke(id, 2)
	if a, err := c.Receive(t.Context(), b.sign(out)); err != nil || a.Rejection != nil {
		t.Fatal(a.Rejection, err)
	}
	b.result(c, h, out)
	if wants, err := c.KeyWants(t.Context()); err != nil || len(wants) != 0 {
		t.Errorf("after the release: %+v, %v", wants, err)
	}
}

// A rejection by the control plane fails the task with its reason, and no other request follows.
func TestRejectedAccessKeys(t *testing.T) {
	t.Parallel()

	b := setup(t)
	b.start()
	c, h := b.connect()
	wait(t, "a greeting", h.met)
	wait(t, "the event of a new connection", h.keys)
	id := ids.New[ids.Allocation]()
	e := b.envelope(id, 1, protocol.ProvisionUser, protocol.ProvisionUserParams{
		User: "t-1", UID: 200001, PublicKeys: []string{tenantKey}, GPUs: b.gpus[:1],
		Storage: &protocol.Storage{Endpoint: "http://10.1.2.3", Bucket: uuid.NewString(), Mounts: []protocol.Mount{{At: "data"}}},
	}, b.gpus[0])
	if a, err := c.Receive(t.Context(), b.sign(e)); err != nil || a.Rejection != nil {
		t.Fatal(a.Rejection, err)
	}
	wait(t, "a step that waits for keys", h.keys)
	if err := c.GrantKeys(t.Context(), helper.KeyGrant{Allocation: id, Failure: "no such allocation", Rejected: true}); err != nil {
		t.Fatal(err)
	}
	if r := b.result(c, h, e); r.Outcome != protocol.Failed || r.Step != "storage" || r.Code != protocol.StepFailed || !strings.Contains(r.Message, "no such allocation") {
		t.Errorf("%+v", r)
	}
	if wants, err := c.KeyWants(t.Context()); err != nil || len(wants) != 0 {
		t.Errorf("%+v, %v", wants, err)
	}
}
