//go:build e2e

package acceptance

import (
	"bufio"
	"context"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
)

// following is a log that a test follows.
type following struct {
	mu   sync.Mutex
	text string
}

func (f *following) contains(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Contains(f.text, text)
}

// openLog follows a log of an allocation until the test ends.
func openLog(t *testing.T, a allocation, source string) *following {
	t.Helper()
	p, f := profiles["default"], &following{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL+allocations+"/"+a.ID+"/logs?follow=true&source="+source, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+p.Token)
	r.Header.Set("X-Project-ID", p.Project)
	r.Header.Set("Accept", "text/event-stream")
	response, err := http.DefaultClient.Do(r)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v %v", response, err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	go func() {
		for lines := bufio.NewScanner(response.Body); lines.Scan(); {
			f.mu.Lock()
			f.text += lines.Text() + "\n"
			f.mu.Unlock()
		}
	}()
	return f
}

// gpuOf returns the state directory of the node of an allocation, and the index and the UUID of its GPU.
func gpuOf(t *testing.T, a allocation) (dir string, index int, uuid string) {
	t.Helper()
	var detail struct{ Login string }
	get(t, allocations+"/"+a.ID, &detail)
	nodes, err := filepath.Glob(filepath.Join(dataDir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range nodes {
		host, err := sim.Read(sim.Path(dir))
		if err != nil {
			continue
		}
		if i := slices.IndexFunc(host.GPUs, func(g *sim.GPU) bool { return slices.Contains(g.Users, detail.Login) }); i >= 0 {
			return dir, i, host.GPUs[i].UUID
		}
	}
	t.Fatalf("no simulated node has the login %q", detail.Login)
	return "", 0, ""
}

// Both allocations are of one SKU: they can be on one node.
func TestAT098(t *testing.T) {
	proves(t)
	mine, theirs := create(t, skuOfOther, "at-098"), create(t, skuOfOther, "at-098-other")
	mine.becomes(t, "active")
	theirs.becomes(t, "active")
	kernel, other, steps := openLog(t, mine, "kernel"), openLog(t, theirs, "kernel"), openLog(t, mine, "agent")
	until(t, "the steps of provisioning are in the log", func() bool { return steps.contains("provision_user, attempt 1: succeeded") })
	dir, index, uuid := gpuOf(t, mine)
	if err := sim.Fault(dir, index, 31); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Heal(dir) })
	until(t, "the fault is in the log of its tenant", func() bool { return kernel.contains("xid 31") })
	if !kernel.contains(uuid) {
		t.Error("the line does not name the GPU")
	}
	_, _, foreign := gpuOf(t, theirs)
	if foreign == uuid || other.contains("xid") || other.contains(uuid) {
		t.Errorf("the other allocation reads %q", other.text)
	}
	release(t, mine)
	until(t, "the release is in the log", func() bool { return steps.contains("revoke_user, attempt 1: succeeded") })
	until(t, "the log ends with the allocation", func() bool { return kernel.contains("allocation_ended") || kernel.contains(`"reason":"right_lost"`) })
}
