//go:build failpoint

package agent_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent"
	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// INV-47, INV-43: network process and helper are killed at every point, as two processes that are started again as
// systemd does. The other process continues; each task is executed exactly once.
func TestINV47EitherHalfKilled(t *testing.T) {
	t.Parallel()

	points := map[string]string{
		"agent.task.before_journal": "helper", "agent.task.after_journal": "helper", "agent.step.before_do:1": "helper", "agent.step.after_do:1": "helper",
		"agent.step.before_do:3": "helper", "agent.step.after_do:3": "helper", "agent.task.before_result": "helper",
		"agent.network.before_take": "network", "agent.network.after_take": "network", "agent.task.after_result": "network",
	}
	for _, kind := range []protocol.Type{protocol.ProvisionUser, protocol.RevokeUser} {
		for point, victim := range points {
			t.Run(string(kind)+"/"+point, func(t *testing.T) {
				t.Parallel()
				halfKilled(t, kind, point, victim)
			})
		}
	}
}

// unit is a half that is started again whenever it ends, as systemd does.
type unit struct {
	half string
	env  []string

	mu  sync.Mutex
	cmd *exec.Cmd
}

func (u *unit) run(ctx context.Context, t *testing.T) {
	for ctx.Err() == nil {
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
		u.mu.Lock()
		cmd.Env = append(append(os.Environ(), "AGENT_TEST_HALF="+u.half), u.env...)
		u.cmd = cmd
		err := cmd.Start()
		u.mu.Unlock()
		if err != nil {
			t.Error(err)
			return
		}
		_ = cmd.Wait()
	}
}

// arm makes the half die at the point, once.
func (u *unit) arm(env ...string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.env = append(u.env, env...)
	_ = u.cmd.Process.Signal(syscall.SIGKILL) // it is started again, armed
}

func halfKilled(t *testing.T, kind protocol.Type, point, victim string) {
	t.Helper()
	d, node, dir, id := newServer(t), ids.New[ids.Node](), t.TempDir(), ids.New[ids.Allocation]()
	c := d.config(dir, node)
	c.Anchor = filepath.Join(dir, "anchor")
	if e, err := agent.Enrol(t.Context(), c); err != nil || e.Node != node || !e.Fresh {
		t.Fatal(e, err)
	}
	if e, err := agent.Enrol(t.Context(), c); err != nil || e.Fresh { // run twice, it is done once
		t.Fatal(e, err)
	}
	hits := filepath.Join(t.TempDir(), "hits")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	common := []string{"AGENT_TEST_SERVER=https://" + d.addr, "AGENT_TEST_DIR=" + dir, "AGENT_TEST_CA=" + fingerprint(d.ca.Bundle())}
	units := map[string]*unit{"helper": {half: "helper", env: common}, "network": {half: "network", env: common}}
	var running sync.WaitGroup
	for _, u := range units {
		running.Go(func() { u.run(ctx, t) })
	}
	defer running.Wait()
	defer cancel()

	var fence int64 = 1
	if kind == protocol.RevokeUser { // something must be there to be revoked
		e := taskFor(t, node, id, protocol.ProvisionUser, fence, 1)
		d.send(e)
		d.until("ready", func() bool { return len(d.results[e.Task]) > 0 && d.phase(node, id) == protocol.Ready })
		fence++
		err := sim.Edit(sim.Path(dir), func(h *sim.Host) error {
			h.Processes = append(h.Processes, sim.Process{PID: 7, UID: 200001, GPU: h.GPUs[0].UUID, Command: "train"})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	} else {
		d.until("a report", func() bool { return d.reports[node].Complete })
	}
	units[victim].arm("GPUAAS_FAILPOINT="+point, "GPUAAS_FAILPOINT_LOG="+hits)
	e := taskFor(t, node, id, kind, fence, 1)
	d.send(e)
	want := protocol.Ready
	if kind == protocol.RevokeUser {
		want = protocol.Gone
	}
	d.until(string(want), func() bool {
		text, _ := os.ReadFile(hits)
		return strings.Count(string(text), "\n") == 1 && len(d.results[e.Task]) > 0 && d.phase(node, id) == want
	})
	cancel()
	running.Wait()

	if text, err := os.ReadFile(hits); err != nil || strings.Count(string(text), "\n") != 1 {
		t.Fatalf("the point was not reached: %q, %v", text, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.results[e.Task] {
		if r.Outcome != protocol.Succeeded {
			t.Errorf("%+v", r)
		}
	}
	h, err := sim.Read(sim.Path(dir))
	if err != nil {
		t.Fatal(err)
	}
	if kind == protocol.RevokeUser && (len(h.Accounts)+len(h.Files)+len(h.Processes) > 0 || h.Kills != 1 || h.Scrubs != 1) {
		t.Errorf("left %+v", h)
	}
	if kind == protocol.ProvisionUser && (len(h.Accounts) != 1 || h.Scrubs != 0) {
		t.Errorf("%+v", h)
	}
}
