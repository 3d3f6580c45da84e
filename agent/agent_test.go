package agent_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/agent"
	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

func bytesReader(b []byte) io.Reader { return bytes.NewReader(b) }

func TestAnAgentsLife(t *testing.T) {
	t.Parallel()

	d, node, dir, id := newServer(t), ids.New[ids.Node](), t.TempDir(), ids.New[ids.Allocation]()
	stop := run(t, d.config(dir, node))
	d.until("a complete report", func() bool { r := d.reports[node]; return r.Complete && len(r.Inventory.GPUs) == 4 })

	d.send(taskFor(t, node, id, protocol.ProvisionUser, 1, 1))
	d.until("ready", func() bool { return d.phase(node, id) == protocol.Ready })

	// A change from outside is reported without a request, and healed by a task.
	if _, err := sim.Drift(dir, sim.DriftAccount); err != nil {
		t.Fatal(err)
	}
	d.until("broken", func() bool { return d.phase(node, id) == protocol.Broken })
	d.send(taskFor(t, node, id, protocol.ProvisionUser, 1, 2))
	d.until("ready again", func() bool { return d.phase(node, id) == protocol.Ready })

	if err := sim.Fault(dir, 1, 79); err != nil {
		t.Fatal(err)
	}
	d.until("an unhealthy GPU", func() bool { return d.reports[node].Inventory.GPUs[1].Health == protocol.Unhealthy })

	// A restart changes nothing, and counts.
	boot := d.reports[node].Boot
	stop()
	stop = run(t, d.config(dir, node))
	d.until("a report of a later boot", func() bool { return d.reports[node].Boot > boot && d.phase(node, id) == protocol.Ready })

	revoke := taskFor(t, node, id, protocol.RevokeUser, 2, 1)
	d.send(revoke)
	d.until("gone", func() bool { return d.phase(node, id) == protocol.Gone && len(d.results[revoke.Task]) > 0 })
	probe := taskFor(t, node, ids.Allocation{}, protocol.Probe, 0, 0)
	d.send(probe)
	d.until("an answer to a probe", func() bool { return len(d.results[probe.Task]) > 0 })
	stop()
	if d.enrolled[node] != 1 {
		t.Errorf("enrolled %d times", d.enrolled[node])
	}
	for _, private := range []string{"identity", "journal", "identity/identity.json", "journal/journal.json"} {
		if info, err := os.Stat(filepath.Join(dir, private)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", private, info.Mode(), err)
		}
	}
}

func TestTheControlPlaneMayBeAway(t *testing.T) {
	t.Parallel()

	d, node, dir, id := newServer(t), ids.New[ids.Node](), t.TempDir(), ids.New[ids.Allocation]()
	c := d.config(dir, node)
	d.shut()
	run(t, c) // it is away already when the agent starts
	d.open()
	d.until("a report", func() bool { return d.reports[node].Complete })
	e := taskFor(t, node, id, protocol.ProvisionUser, 1, 1)
	d.shut()
	d.send(e)
	d.open()
	d.until("the result", func() bool { return len(d.results[e.Task]) > 0 && d.results[e.Task][0].Outcome == protocol.Succeeded })
}

func TestAPartitionedAgentIsSilentAndComesBack(t *testing.T) {
	t.Parallel()

	d, node, dir, id := newServer(t), ids.New[ids.Node](), t.TempDir(), ids.New[ids.Allocation]()
	run(t, d.config(dir, node))
	d.until("a report", func() bool { return d.reports[node].Complete })
	d.polled(node, true)
	if err := sim.Partition(dir); err != nil {
		t.Fatal(err)
	}
	// Its poll ends when it has noticed; from then on it may send nothing but what was
	// on its way.
	d.polled(node, false)
	<-time.After(200 * time.Millisecond)
	d.mu.Lock()
	last := d.reports[node].Sequence
	d.mu.Unlock()
	e := taskFor(t, node, id, protocol.ProvisionUser, 1, 1)
	d.send(e)
	select {
	case <-d.nextNews():
		t.Error("a partitioned agent spoke")
	case <-time.After(2500 * time.Millisecond): // longer than between two reports
	}
	if err := sim.Heal(dir); err != nil {
		t.Fatal(err)
	}
	d.until("the result", func() bool { return len(d.results[e.Task]) > 0 && d.reports[node].Sequence > last })
}

// The period is policy. An agent that used the one of its enrolment would be
// reported as silent.
func TestThePeriodIsLearntWithEachReport(t *testing.T) {
	t.Parallel()

	d, node := newServer(t), ids.New[ids.Node]()
	d.first, d.every = 600, 1
	run(t, d.config(t.TempDir(), node))
	d.until("reports by the new period", func() bool { return d.reports[node].Sequence > 2 })
}

func TestRenewalHasANewKeyAndKeepsTheNode(t *testing.T) {
	t.Parallel()

	d, node, dir := newServer(t), ids.New[ids.Node](), t.TempDir()
	c := d.config(dir, node)
	d.mu.Lock()
	d.life = time.Minute // counted with five minutes of backdate, half of it is over
	d.mu.Unlock()
	run(t, c)
	d.until("a report", func() bool { return d.reports[node].Complete })
	before, err := os.ReadFile(filepath.Join(dir, "identity", "identity.json"))
	if err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	d.life = time.Hour
	d.mu.Unlock()
	d.until("a renewal", func() bool { return d.renewed[node] > 0 })
	d.until("a report", func() bool { return d.reports[node].Sequence > 2 })
	after, err := os.ReadFile(filepath.Join(dir, "identity", "identity.json"))
	if err != nil || bytes.Equal(before, after) {
		t.Errorf("the identity is the same: %v", err)
	}
	if d.enrolled[node] != 1 {
		t.Errorf("enrolled %d times", d.enrolled[node])
	}
}

// A task signed by a key of today, which the agent has not heard of.
func TestARotatedTaskKeyIsLearnt(t *testing.T) {
	t.Parallel()

	d, node, id := newServer(t), ids.New[ids.Node](), ids.New[ids.Allocation]()
	run(t, d.config(t.TempDir(), node))
	d.until("a report", func() bool { return d.reports[node].Complete })
	if _, err := d.keys.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := taskFor(t, node, id, protocol.ProvisionUser, 1, 1)
	d.send(e)
	d.until("the result", func() bool { return len(d.results[e.Task]) > 0 })
}

func TestALostJournalIsSaid(t *testing.T) {
	t.Parallel()

	d, node, dir := newServer(t), ids.New[ids.Node](), t.TempDir()
	stop := run(t, d.config(dir, node))
	d.until("a report", func() bool { return d.reports[node].Complete })
	stop()
	if err := os.RemoveAll(filepath.Join(dir, "journal")); err != nil {
		t.Fatal(err)
	}
	stop = run(t, d.config(dir, node))
	d.until("an incomplete report", func() bool { return !d.reports[node].Complete })
	e := taskFor(t, node, ids.New[ids.Allocation](), protocol.RevokeUser, 9, 1)
	d.send(e)
	d.until("the rejection", func() bool {
		return len(d.results[e.Task]) > 0 && d.results[e.Task][0].Code == protocol.JournalLost
	})
	stop()

	// An operator enrols the node again.
	if err := os.RemoveAll(filepath.Join(dir, "identity")); err != nil {
		t.Fatal(err)
	}
	boot := d.reports[node].Boot
	run(t, d.config(dir, node))
	d.until("a complete report", func() bool { return d.reports[node].Complete && d.reports[node].Boot > boot })
}

func TestAFleetInOneProcess(t *testing.T) {
	t.Parallel()

	d := newServer(t)
	var configs []agent.Config
	var nodes []ids.Node
	for range 20 {
		node := ids.New[ids.Node]()
		nodes, configs = append(nodes, node), append(configs, d.config(t.TempDir(), node))
	}
	runFleet(t, configs)
	for _, node := range nodes {
		d.until("a report of each", func() bool { return d.reports[node].Complete })
	}
}

func TestConfigurationsThatCannotWork(t *testing.T) {
	t.Parallel()

	d := newServer(t)
	for rule, change := range map[string]func(*agent.Config){
		"no server":      func(c *agent.Config) { c.Server = "" },
		"no CA":          func(c *agent.Config) { c.CA = nil },
		"no profile":     func(c *agent.Config) { c.Profile = "" },
		"unknown driver": func(c *agent.Config) { c.Driver = "amd" },
		"wrong profile":  func(c *agent.Config) { c.Profile = "b200-8" },
	} {
		c := d.config(t.TempDir(), ids.New[ids.Node]())
		change(&c)
		if err := agent.Run(t.Context(), c); err == nil {
			t.Errorf("%s: ran", rule)
		}
	}
}

func TestAFingerprintIsEnoughToEnrol(t *testing.T) {
	t.Parallel()

	d, node := newServer(t), ids.New[ids.Node]()
	c := d.config(t.TempDir(), node)
	c.CAFingerprint, c.CA = fingerprint(d.ca.Bundle()), nil
	run(t, c)
	d.until("a report", func() bool { return d.reports[node].Complete })
}
