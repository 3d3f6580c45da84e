package allocation_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
	"github.com/gpuaas/gpuaas/protocol"
)

// reports stores a report of a node, with what it states about mounts.
func reports(t *testing.T, w *allocationtest.Fixture, node ids.Node, gpus int, m *protocol.MountSupport) {
	t.Helper()
	r := allocationtest.Report(node, gpus)
	r.Mounts = m
	w.Do(t, func(tx pgx.Tx) error {
		return w.Inventory.ApplyReport(t.Context(), tx, node, r)
	})
}

func requestMounts(w *allocationtest.Fixture, t *testing.T, mounts ...desired.Mount) (allocation.Allocation, error) {
	t.Helper()
	return w.Server().Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1, Mounts: mounts})
}

func TestMountsOfAnAllocation(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	other, node := w.Node(t, "a-lacks", 1), w.Node(t, "b-can", 1)
	reports(t, w, other, 1, &protocol.MountSupport{Missing: "fusermount3"})
	reports(t, w, node, 1, &protocol.MountSupport{Supported: true})

	a, err := requestMounts(w, t, desired.Mount{Path: "runs", At: "out"}, desired.Mount{Path: "dataset/", At: "data", ReadOnly: true})
	must(t, err)
	want := []desired.Mount{{Path: "dataset", At: "data", ReadOnly: true}, {Path: "runs", At: "out"}}
	var spec desired.Allocation
	must(t, json.Unmarshal(w.Declared(t, a.ID).Spec, &spec))
	stored, err := w.Allocations.Get(t.Context(), w.Caller, a.ID)
	must(t, err)
	if spec.MountEndpoint != "https://s3.example" {
		t.Errorf("endpoint %q", spec.MountEndpoint)
	}
	if a.Node != node || !reflect.DeepEqual(spec.Mounts, want) || !reflect.DeepEqual(stored.Mounts, want) {
		t.Fatalf("on %s with %v, stored %v", a.Node, spec.Mounts, stored.Mounts)
	}

	usable := func() (n int) {
		t.Helper()
		must(t, w.DB.QueryRow(t.Context(), `SELECT count(*) FROM storage_access_keys WHERE allocation_id = $1 AND expires_at > now()`, a.ID).Scan(&n))
		return n
	}
	if n := usable(); n != 0 {
		t.Errorf("%d keys before the node requested them", n)
	}
	if _, err := w.MountKeys.ExtendMounts(t.Context(), other, a.ID); errs.CodeOf(err) != errs.NotFound {
		t.Errorf("another node: %v", err)
	}
	first, err := w.MountKeys.ExtendMounts(t.Context(), node, a.ID)
	must(t, err)
	again, err := w.MountKeys.ExtendMounts(t.Context(), node, a.ID)
	must(t, err)
	if len(first.Keys) != 2 || first.Keys[0].At != "data" || first.Keys[1].At != "out" || !reflect.DeepEqual(first.Keys, again.Keys) || !again.ExpiresAt.After(first.ExpiresAt) || usable() != 2 {
		t.Errorf("%+v, then %+v", first, again)
	}
	if left := time.Until(again.ExpiresAt); left < 59*time.Minute || left > 61*time.Minute {
		t.Errorf("keys for %s", left)
	}

	w.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error {
		return w.Allocations.NodeReady(t.Context(), tx, a, metering.Observation{Node: a.Node, Fence: 1, Generation: 1})
	})
	_, err = w.Allocations.Release(t.Context(), w.Caller, identity.Key{}, a.ID, nil)
	must(t, err)
	if _, err := w.MountKeys.ExtendMounts(t.Context(), node, a.ID); errs.CodeOf(err) != errs.NotFound || usable() != 2 {
		t.Errorf("after the release was requested: %v, %d keys", err, usable())
	}
	fence := w.Declared(t, a.ID).Fence
	w.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error {
		return w.Allocations.SlotsGone(t.Context(), tx, a, allocationtest.Proof(fence, allocationtest.GPU(node, 0)))
	})
	if n := usable(); n != 0 {
		t.Errorf("%d keys after the node proved the cleanup", n)
	}
}

func TestMountsThatAreRejected(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	node := w.Node(t, "node-1", 1)
	for name, c := range map[string]struct {
		mounts []desired.Mount
		code   errs.Code
	}{
		"no mount point":       {[]desired.Mount{{Path: "a"}}, errs.ValidationError},
		"upwards":              {[]desired.Mount{{Path: "../b", At: "data"}}, errs.StoragePathTraversal},
		"out of the home":      {[]desired.Mount{{At: "../x"}}, errs.ValidationError},
		"an absolute folder":   {[]desired.Mount{{At: "/data"}}, errs.ValidationError},
		"over the SSH keys":    {[]desired.Mount{{At: ".ssh"}}, errs.ValidationError},
		"twice":                {[]desired.Mount{{At: "a"}, {Path: "x", At: "a"}}, errs.ValidationError},
		"one in the other":     {[]desired.Mount{{At: "a/b"}, {At: "a"}}, errs.ValidationError},
		"nine":                 {make([]desired.Mount, 9), errs.ValidationError},
		"an agent that is old": {[]desired.Mount{{At: "data"}}, errs.SKUUnavailable},
	} {
		_, err := requestMounts(w, t, c.mounts...)
		if errs.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
		if e, ok := errors.AsType[*errs.Error](err); !ok || !strings.HasPrefix(e.Field, "mounts") {
			t.Errorf("%s: %v names no mount", name, err)
		}
	}
	reports(t, w, node, 1, &protocol.MountSupport{Missing: "rclone 1.60 or newer"})
	if _, err := requestMounts(w, t, desired.Mount{At: "data"}); errs.CodeOf(err) != errs.SKUUnavailable || !strings.Contains(err.Error(), "rclone 1.60 or newer") {
		t.Errorf("a node without rclone: %v", err)
	}
	w.MountKeys.MayMount = func(_ identity.Caller, readOnly bool) bool { return readOnly }
	if _, err := requestMounts(w, t, desired.Mount{At: "data"}); errs.CodeOf(err) != errs.Forbidden {
		t.Errorf("a caller who may only read: %v", err)
	}
	w.MountKeys.MayMount = nil
	if _, err := requestMounts(w, t, desired.Mount{At: "data"}); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("an installation without an endpoint: %v", err)
	}
	var keys int
	must(t, w.DB.QueryRow(t.Context(), `SELECT count(*) FROM storage_access_keys`).Scan(&keys))
	if keys != 0 {
		t.Errorf("%d keys of rejected requests", keys)
	}
	if _, err := requestMounts(w, t); err != nil {
		t.Errorf("without mounts: %v", err)
	}
}

// A request that waits has the mounts when it is placed, and lets a request without mounts pass.
func TestQueuedMounts(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	node := w.Node(t, "node-1", 2)
	first := w.Request(t, 2)
	w.Limits.QueueWait = time.Hour
	a, err := w.Allocations.Request(t.Context(), allocation.Request{Caller: w.Caller, SKU: allocationtest.SKU, GPUs: 1, Queue: true, Mounts: []desired.Mount{{At: "data"}}})
	must(t, err)
	b := queued(t, w, 1)
	vacate(t, w, first)
	place(t, w, 1)
	if a, b = read(t, w, a.ID), read(t, w, b.ID); !a.Queued() || b.Queued() {
		t.Fatalf("on a node that cannot mount: with mounts %v, without %v", a.Node, b.Node)
	}
	reports(t, w, node, 2, &protocol.MountSupport{Supported: true})
	place(t, w, 1)
	if keys, err := w.MountKeys.ExtendMounts(t.Context(), node, a.ID); err != nil || len(keys.Keys) != 1 {
		t.Errorf("%+v, %v", keys, err)
	}
}
