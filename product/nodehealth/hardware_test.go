package nodehealth_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/protocol"
)

func topology(name string) *protocol.Topology {
	card := func(uuid, serial, pci string, minor int) protocol.Card {
		return protocol.Card{UUID: uuid, Serial: serial, Model: "H100", VBIOS: "96", Minor: minor, PCI: pci, Link: protocol.Link{Width: 16, MaxWidth: 16, Speed: 2500, MaxSpeed: 32000}}
	}
	return &protocol.Topology{
		Machine: protocol.Machine{Vendor: "Acme", Product: "G8", Serial: name, BIOS: "1.0"},
		GPUs:    []protocol.Card{card(name+"-g0", "1001", "0000:1b:00.0", 0), card(name+"-g1", "1002", "0000:43:00.0", 1)},
	}
}

func (b *bundle) hardware(id ids.Node, change func(*protocol.Topology)) (changed string) {
	b.t.Helper()
	r := report("n")
	r.Topology = topology("n")
	if change != nil {
		change(r.Topology)
	}
	r.Fingerprint = r.Topology.Hardware().Fingerprint()
	b.report(id, r)
	_, changed, err := b.Topology(b.t.Context(), b.db, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return changed
}

const heldForHardware = `SELECT count(*) FROM holds WHERE lifted_at IS NULL AND kind = 'cordon' AND cause = 'fingerprint' AND slot_id IS NULL`

// Hardware that differs from the accepted hardware sets a hold on the node, names the difference, and
// never changes a slot. The hold is lifted when the hardware equals the accepted one again, or an
// operator accepts it.
func TestChangedHardwareHoldsTheNode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*protocol.Topology)
		says   string
	}{
		"as before": {func(*protocol.Topology) {}, ""},
		"what changes itself": {func(h *protocol.Topology) {
			h.GPUs[0].Link.Width, h.GPUs[0].Link.Speed, h.GPUs[0].Minor = 8, 32000, 7
			h.Machine.BIOS = "1.1"
		}, ""},
		"a missing GPU":     {func(h *protocol.Topology) { h.GPUs = h.GPUs[:1] }, "GPU 1 (serial 1002) is missing"},
		"another card":      {func(h *protocol.Topology) { h.GPUs[1].UUID, h.GPUs[1].Serial = "x", "9" }, "GPU 1 (serial 1002) is missing; a GPU at 0000:43:00.0 (serial 9) was not accepted"},
		"a narrower slot":   {func(h *protocol.Topology) { h.GPUs[1].Link.MaxWidth = 8 }, "link of GPU 1 is x8, accepted x16"},
		"another vBIOS":     {func(h *protocol.Topology) { h.GPUs[0].VBIOS = "97" }, "vBIOS of GPU 0 is 97, accepted 96"},
		"another NUMA node": {func(h *protocol.Topology) { h.GPUs[0].NUMA = 1 }, "GPU 0 is on NUMA node 1, accepted 0"},
		"another group":     {func(h *protocol.Topology) { h.GPUs[0].GroupWith = []string{"0000:1b:00.1"} }, "GPU 0 shares its IOMMU group with 0000:1b:00.1, accepted none"},
		"swapped slots":     {func(h *protocol.Topology) { h.GPUs[0].PCI, h.GPUs[1].PCI = h.GPUs[1].PCI, h.GPUs[0].PCI }, "address of GPU 0 is 0000:43:00.0, accepted 0000:1b:00.0; address of GPU 1 is 0000:1b:00.0, accepted 0000:43:00.0"},
		"another computer":  {func(h *protocol.Topology) { h.Machine.Serial = "m2" }, "serial number is m2, accepted n"},
		"a GPU off the bus": {func(h *protocol.Topology) {
			h.GPUs[0].Serial, h.GPUs[0].VBIOS, h.GPUs[0].Link = "", "", protocol.Link{}
		}, ""},
		"what was not read": {func(h *protocol.Topology) { h.GPUs = nil; h.Missing = []string{"driver"} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			id := b.node("n")
			if changed := b.hardware(id, nil); changed != "" {
				t.Fatalf("the first is not accepted: %s", changed)
			}
			slots := b.slots()
			if changed := b.hardware(id, c.change); changed != c.says {
				t.Errorf("reports %q, want %q", changed, c.says)
			}
			want := 0
			if c.says != "" {
				want = 1
			}
			if n := b.count(heldForHardware); n != want {
				t.Errorf("%d holds", n)
			}
			if again := b.slots(); again != slots {
				t.Errorf("slots were %s, are %s", slots, again)
			}
			b.hardware(id, nil)
			if n := b.count(heldForHardware); n != 0 {
				t.Error("it is unchanged and has a hold")
			}
			b.hardware(id, c.change)
			b.do(func(tx pgx.Tx) error {
				_, err := b.AcceptHardware(t.Context(), tx, id)
				if name == "what was not read" && errs.CodeOf(err) == errs.Conflict {
					return nil
				}
				return err
			})
			if n := b.count(heldForHardware); n != 0 {
				t.Error("it is accepted and has a hold")
			}
			if name == "what was not read" {
				return
			}
			diff := pgtest.Diff(t, b.db)
			if changed := b.hardware(id, c.change); changed != "" || diff() != "" {
				t.Errorf("accepted, and differs: %s%s", changed, diff())
			}
		})
	}
}

func TestHardwareThatWasNeverReportedIsNotAccepted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id := b.node("n")
	err := pgx.BeginFunc(t.Context(), b.db, func(tx pgx.Tx) error {
		_, err := b.AcceptHardware(t.Context(), tx, id)
		return err
	})
	if errs.CodeOf(err) != errs.Conflict {
		t.Error(err)
	}
}
