package agent_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// An agent requests access keys when a step waits for them, and again after a failure. A second agent process of the node
// requests them without a task.
func TestAccessKeysAreRequested(t *testing.T) {
	t.Parallel()

	d, node, dir, id := newServer(t), ids.New[ids.Node](), t.TempDir(), ids.New[ids.Allocation]()
	var requests, reject atomic.Int64
	d.storageKey = func(allocation string) (int, protocol.MountKeys) {
		switch n := requests.Add(1); {
		case allocation != id.String() || reject.Load() > 0:
			return http.StatusNotFound, protocol.MountKeys{}
		case n == 1:
			return http.StatusServiceUnavailable, protocol.MountKeys{}
		}
		return http.StatusOK, protocol.MountKeys{ExpiresAt: time.Now().Add(time.Hour), Keys: []protocol.MountKey{{At: "data", AccessKeyID: "GK1", Secret: "s1"}}}
	}
	mounts := func(fence int64) protocol.Envelope {
		e := taskFor(t, node, id, protocol.ProvisionUser, fence, 1)
		var p protocol.ProvisionUserParams
		if err := json.Unmarshal(e.Params, &p); err != nil {
			t.Fatal(err)
		}
		p.Storage = &protocol.Storage{Endpoint: "http://10.1.2.3:9000", Bucket: uuid.NewString(), Mounts: []protocol.Mount{{At: "data"}}}
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		e.Params = text
		return e
	}
	stop := run(t, d.config(dir, node))
	d.send(mounts(1))
	d.until("a mount", func() bool {
		for _, a := range d.reports[node].Allocations {
			if a.Allocation == id && a.Phase == protocol.Ready && len(a.Mounts) == 1 && a.Mounts[0].Mounted {
				return true
			}
		}
		return false
	})
	if n := requests.Load(); n != 2 {
		t.Errorf("%d requests, want one that fails and one more", n)
	}
	stop()
	stop = run(t, d.config(dir, node))
	for range 500 {
		if requests.Load() > 2 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if n := requests.Load(); n != 3 {
		t.Errorf("%d requests after a start, want 3", n)
	}
	revoke := taskFor(t, node, id, protocol.RevokeUser, 2, 1)
	d.send(revoke)
	d.until("gone", func() bool { return d.phase(node, id) == protocol.Gone })
	reject.Store(1)
	last := mounts(3)
	d.send(last)
	d.until("a rejection", func() bool { return len(d.results[last.Task]) > 0 })
	if r := d.results[last.Task][0]; r.Outcome != protocol.Failed || r.Step != "storage" || !strings.Contains(r.Message, "gives no access keys") {
		t.Errorf("%+v", r)
	}
	if n := requests.Load(); n != 4 {
		t.Errorf("%d requests, want no other after a rejection", n)
	}
	stop()
}
