package sim_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/gpuaas/gpuaas/agent/gpu/sim"
	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

func open(t *testing.T, profile string) (*sim.Driver, string, ids.Node) {
	t.Helper()
	dir, node := t.TempDir(), ids.New[ids.Node]()
	d, err := sim.Open(dir, node, profile, "gpu-01")
	if err != nil {
		t.Fatal(err)
	}
	return d, dir, node
}

// The numbers are those of the boards' data sheets and of real captures.
func TestProfilesReadBackThroughTheRealParser(t *testing.T) {
	t.Parallel()

	for profile, want := range map[string]struct {
		model  string
		gpus   int
		memory int64
		watts  int64
		links  int
	}{
		"h100-8": {"NVIDIA H100 80GB HBM3", 8, 81559, 700, 18},
		"a100-8": {"NVIDIA A100-SXM4-40GB", 8, 40960, 400, 12},
		"l40s-4": {"NVIDIA L40S", 4, 46068, 350, 0},
		"t4-4":   {"Tesla T4", 4, 15360, 70, 0},
	} {
		d, _, node := open(t, profile)
		got, err := d.Inventory(t.Context())
		if err != nil || len(got.GPUs) != want.gpus || !got.Simulated || got.Hostname != "gpu-01" {
			t.Fatalf("%s: %+v, %v", profile, got, err)
		}
		uuids, err := sim.UUIDs(node, profile)
		if err != nil {
			t.Fatal(err)
		}
		for i, g := range got.GPUs {
			if g.UUID != uuids[i] || g.Model != want.model || g.MemoryMiB != want.memory || g.PowerLimitMW != want.watts*1000 ||
				g.NVLinks != want.links || g.Health != protocol.Healthy || g.Serial == "" || g.Index != i {
				t.Errorf("%s: GPU %d is %+v", profile, i, g)
			}
		}
	}
}

func TestTheSameNodeIsTheSameHost(t *testing.T) {
	t.Parallel()

	_, dir, node := open(t, "t4-4")
	again, err := sim.Open(dir, node, "t4-4", "gpu-01")
	if err != nil {
		t.Fatal(err)
	}
	first, err := again.BootID()
	if err != nil || first == "" {
		t.Fatal(err)
	}
	for what, err := range map[string]error{
		"another node":    second(sim.Open(dir, ids.New[ids.Node](), "t4-4", "")),
		"another profile": second(sim.Open(dir, node, "h100-8", "")),
		"no profile":      second(sim.Open(t.TempDir(), node, "b200-8", "")),
	} {
		if err == nil {
			t.Errorf("%s was accepted", what)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestEditorsTakeTurns(t *testing.T) {
	t.Parallel()

	_, dir, _ := open(t, "t4-4")
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			err := sim.Edit(sim.Path(dir), func(h *sim.Host) error {
				h.Scrubs++
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	refused := errors.New("no")
	if err := sim.Edit(sim.Path(dir), func(h *sim.Host) error { h.Scrubs = -1; return refused }); !errors.Is(err, refused) {
		t.Errorf("%v", err)
	}
	if h, err := sim.Read(sim.Path(dir)); err != nil || h.Scrubs != 50 || h.Version != 51 {
		t.Errorf("%+v, %v", h, err)
	}
}

func TestFaultsShowAndHeal(t *testing.T) {
	t.Parallel()

	d, dir, _ := open(t, "h100-8")
	for gpu, xid := range []int{79, 48, 31, 45} {
		if err := sim.Fault(dir, gpu, xid); err != nil {
			t.Fatal(err)
		}
	}
	got, err := d.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		health protocol.Health
		reason string
	}{
		{protocol.Unhealthy, "xid 79: fallen off the bus"},
		{protocol.Unhealthy, "xid 48: double-bit memory error"},
		{protocol.Degraded, "xid 31: application memory fault"},
		{protocol.Healthy, ""},
		{protocol.Healthy, ""},
	} {
		if g := got.GPUs[i]; g.Health != want.health || !strings.Contains(strings.Join(g.Reasons, ";"), want.reason) {
			t.Errorf("GPU %d: %s %v", i, g.Health, g.Reasons)
		}
	}
	if err := d.Scrub(t.Context(), got.GPUs[0].UUID); err == nil {
		t.Error("scrubbed a lost GPU")
	}
	if err := sim.Heal(dir); err != nil {
		t.Fatal(err)
	}
	if got, err = d.Inventory(t.Context()); err != nil || got.GPUs[0].Health != protocol.Healthy {
		t.Errorf("%+v, %v", got.GPUs[0], err)
	}
	// A source that has reported a fault must report that it has ended.
	well := 0
	for _, r := range d.Examine(t.Context(), got, nil).Health {
		if r.Source == health.SourceXID && r.Level == protocol.Healthy {
			well++
		}
	}
	if well != len(got.GPUs) {
		t.Errorf("the events of %d of %d GPUs are reported", well, len(got.GPUs))
	}
}

func TestFaultsHaveAReason(t *testing.T) {
	t.Parallel()

	_, dir, _ := open(t, "t4-4")
	for what, c := range map[string]struct {
		err  error
		says string
	}{
		"no tenant": {second(sim.Drift(dir, "")), "create an allocation"},
		"no way":    {second(sim.Drift(dir, "sideways")), "keys, account, process"},
		"no GPU":    {sim.Fault(dir, 4, 79), "0 to 3"},
		"no XID":    {sim.Fault(dir, 0, 0), "no XID"},
		"no node":   {sim.Partition(t.TempDir()), "no simulated node"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%s: %v", what, c.err)
		}
	}
	if did, err := sim.Drift(dir, sim.DriftProcess); err != nil || did == "" {
		t.Errorf("%q, %v", did, err)
	}
}

func TestStampChangesWithTheHost(t *testing.T) {
	t.Parallel()

	d, dir, _ := open(t, "t4-4")
	before, err := d.Stamp()
	if err != nil {
		t.Fatal(err)
	}
	if err := sim.Partition(dir); err != nil {
		t.Fatal(err)
	}
	if after, err := d.Stamp(); err != nil || after == before {
		t.Errorf("%q, %v", after, err)
	}
	if cut, err := d.Partitioned(); err != nil || !cut {
		t.Errorf("%v, %v", cut, err)
	}
}

// A manual change of a node is in its next report: a GPU that is gone, another serial.
func TestManualChangesAreReported(t *testing.T) {
	t.Parallel()

	for way, says := range map[string]string{sim.DriftGPU: "pulled out GPU-", sim.DriftSerial: "swapped GPU-"} {
		d, dir, _ := open(t, "t4-4")
		before, err := d.Inventory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		did, err := sim.Drift(dir, way)
		if err != nil || !strings.HasPrefix(did, says) {
			t.Fatalf("%s: %q, %v", way, did, err)
		}
		after, err := d.Inventory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if way == sim.DriftGPU && len(after.GPUs) != 3 || way == sim.DriftSerial && (len(after.GPUs) != 4 || after.GPUs[0].Serial == before.GPUs[0].Serial) {
			t.Errorf("%s: %+v", way, after.GPUs)
		}
	}
}
