package nodehealth_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/agent/health"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/protocol"
)

// A fault scenario is a fault on a node of two GPUs, in one of several circumstances, with the expected
// state after each step. The faults and their consequences are written here by hand and not read from
// the table of the product. A wrong line in that table therefore fails a test here.

// harm is one fault of the grammar, with what it must lead to.
type harm struct {
	name     string
	xid      int    // of GPU 1; 0: its source reports check
	logged   bool   // only the kernel log contains the XID
	source   string // the source that reports check
	check    string
	gpu      bool   // about GPU 1, else the node
	gpuIs    string // health of GPU 1: h, d, u(nhealthy), ?
	slot     bool   // its slot is not sold
	node     bool   // the node is
	action   string
	notified bool   // the tenant of the GPU is notified
	ends     string // of an XID: time, reset, restart
}

func xids(gpuIs string, slot, node bool, action string, notified bool, ends string, numbers ...int) (all []harm) {
	for _, n := range numbers {
		all = append(all, harm{name: fmt.Sprintf("xid %d", n), xid: n, check: fmt.Sprintf("xid_%d", n), gpu: true, gpuIs: gpuIs, slot: slot, node: node, action: action, notified: notified, ends: ends})
	}
	return all
}

// logged are XIDs that only the kernel log contains, where a tenant can write them.
func logged(ends string, numbers ...int) (all []harm) {
	for _, h := range xids("h", false, false, "hint", false, ends, numbers...) {
		h.name, h.logged = h.name+" in the kernel log", true
		all = append(all, h)
	}
	return all
}

func said(source, gpuIs string, slot, node bool, action string, notified bool, checks ...string) (all []harm) {
	for _, c := range checks {
		all = append(all, harm{name: c, source: source, check: c, gpu: gpuIs != "", gpuIs: gpuIs, slot: slot, node: node, action: action, notified: notified})
	}
	return all
}

var harms = slices.Concat(
	xids("d", false, false, "count", true, "time", 13, 31, 32, 39, 40, 41, 68, 69, 70, 71, 72, 94),
	xids("h", false, false, "ignore", false, "time", 43, 45, 63, 92),
	xids("u", true, false, "reset_gpu", true, "reset", 62, 64, 95, 136, 140, 143, 155, 156),
	xids("d", false, false, "confirm", true, "time", 46, 109, 110, 119, 120, 158),
	xids("u", true, false, "diagnose", true, "reset", 48),
	xids("d", false, false, "inspect", false, "restart", 54),
	xids("d", false, false, "restart_guest", true, "restart", 151),
	xids("d", false, false, "inspect", false, "time", 154),
	xids("u", true, false, "nvlink", true, "reset", 74, 144, 145, 146, 147, 148, 149, 150),
	xids("u", true, true, "restart_host", true, "restart", 79, 160),
	xids("d", false, false, "confirm", true, "time", 1, 777), // not expected
	logged("time", 13, 31, 43, 45, 68, 119, 777),
	logged("reset", 48, 62, 74, 95, 140),
	logged("restart", 79, 160),
	said("driver", "u", true, true, "restart_host", true, "gpu_lost", "recovery_node_reboot", "recovery_system_reboot"),
	said("driver", "u", true, false, "reset_gpu", true, "ecc_uncorrected", "recovery_gpu_reset", "recovery_bus_reset"),
	said("driver", "u", true, false, "diagnose", true, "row_remap_failed", "pages_retired", "recovery_drain_and_reset"),
	said("driver", "u", true, false, "nvlink", true, "recovery_drain_p2p", "recovery_imex_domain"),
	said("driver", "u", true, false, "report", true, "recovery_other"),
	said("driver", "d", false, false, "reset_when_free", false, "row_remap_pending", "pages_retiring"),
	said("driver", "d", true, false, "cool", true, "thermal"),
	said("driver", "d", false, false, "inspect", false, "power_brake", "pcie_speed"),
	said("driver", "?", true, false, "ask_driver", false, "gpu_unknown"),
	said("pcie", "d", true, false, "reseat", true, "pcie_width"),
	said("pcie", "d", false, false, "inspect", false, "pcie_replays"),
	said("nvlink", "u", true, false, "nvlink", true, "nvlink_down"),
	said("disk", "", false, true, "mend_host", false, "disk_full", "disk_read_only", "disk_failing"),
	said("clock", "", false, true, "mend_host", false, "clock_offset"),
	said("clock", "", false, false, "inspect", false, "clock_unsynchronised"),
	said("memory", "", false, true, "mend_host", false, "memory_uncorrected"),
	said("memory", "", false, false, "inspect", false, "memory_corrected"),
	said("network", "", false, false, "inspect", false, "nic_down"),
	said("driver", "", false, true, "ask_driver", false, "driver_silent"),
	said("disk", "", false, false, "ask_again", false, "probe_silent"),
)

// scenario is one run of a fault in a circumstance.
type scenario struct {
	t  *testing.T
	b  *bundle
	at string // the current step

	harm   harm
	name   string
	node   ids.Node
	claim  ids.Allocation // zero: the GPUs are free
	rules  *nodehealth.FaultRules
	ledger *health.Ledger
	boot   int
	line   uint64
	now    time.Time
	says   map[string]string // sources with a value → check
	other  bool              // a second, harmless fault on GPU 0
}

func (s *scenario) gpus() []protocol.GPU {
	list := report(s.name).Inventory.GPUs
	list[0].PCI, list[1].PCI = "0000:1b:00.0", "0000:43:00.0"
	return list
}

// restart resets the part of the agent's memory that a start of the host OS or of the agent loses.
func (s *scenario) restart(host bool) {
	s.t.Helper()
	if err := s.ledger.Save(); err != nil {
		s.t.Fatal(err)
	}
	if host {
		s.boot++
		s.line = 0
	}
	s.open()
}

func (s *scenario) open() {
	s.t.Helper()
	l, err := health.OpenLedger(s.t.TempDir()+"/../"+s.name+".json", fmt.Sprint("boot-", s.boot))
	if err != nil {
		s.t.Fatal(err)
	}
	s.ledger = l
}

func (s *scenario) happens() {
	if s.harm.xid == 0 {
		s.says[s.harm.source] = s.harm.check
		return
	}
	if !s.harm.logged {
		s.ledger.AddEvent(health.Event{PCI: "0000:43:00.0", XID: s.harm.xid}, s.now)
		return
	}
	s.line++
	s.ledger.Add(s.line, fmt.Sprintf("NVRM: Xid (PCI:0000:43:00): %d, pid=7, name=python", s.harm.xid), s.now)
}

// report sends the agent's current report, classified by the agent, and processes it on the server.
func (s *scenario) report() {
	s.t.Helper()
	r := report(s.name)
	r.Inventory.GPUs = s.gpus()
	s.ledger.Expire(s.now)
	r.Health = s.ledger.Reports(r.Inventory.GPUs)
	for _, source := range []string{"driver", "nvlink", "pcie"} {
		for i, g := range r.Inventory.GPUs {
			if check := s.says[source]; i == 1 && check != "" && s.harm.gpu {
				r.Health = append(r.Health, health.NewReport(source, g.UUID, check, ""))
			} else {
				r.Health = append(r.Health, health.Well(source, g.UUID))
			}
		}
	}
	for _, source := range []string{"clock", "disk", "memory", "network", "driver"} {
		if check := s.says[source]; check != "" && !s.harm.gpu {
			r.Health = append(r.Health, health.NewReport(source, "", check, ""))
		} else if source != "driver" {
			r.Health = append(r.Health, health.Well(source, ""))
		}
	}
	if s.other {
		r.Health = slices.DeleteFunc(r.Health, func(h protocol.HealthReport) bool { return h.Source == "xid" && h.Target == r.Inventory.GPUs[0].UUID })
		r.Health = append(r.Health, health.NewXIDReport(r.Inventory.GPUs[0].UUID, 31, protocol.FromDriver))
	}
	protocol.SortHealth(r.Health)
	health.MergeHealth(r.Inventory.GPUs, r.Health)
	err := pgx.BeginFunc(s.t.Context(), s.b.db, func(tx pgx.Tx) error { return s.server().ApplyReport(s.t.Context(), tx, s.node, r) })
	if err != nil {
		s.t.Fatalf("%s: %v", s.at, err)
	}
}

func (s *scenario) server() *nodehealth.Service {
	rules := nodehealth.FaultRules{Action: nodehealth.FaultQuarantinesSlot, MassPercent: 100, MassMinimum: 1000}
	if s.rules != nil {
		rules = *s.rules
	}
	server := nodehealth.New(s.b.db, nil)
	server.Rules = func(string) nodehealth.FaultRules { return rules }
	return server
}

// visible is the visible state: "gpu0 gpu1, slot0 slot1, node held or not, action, text for the tenant".
type visible struct {
	gpus, slots  string
	held         bool
	actions      string
	notified     bool
	unhealthyFor bool // billing pauses
}

func (s *scenario) readState() (n visible) {
	s.t.Helper()
	_, devices, err := s.b.Node(s.t.Context(), s.name)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, d := range devices {
		n.gpus += map[string]string{"healthy": "h", "degraded": "d", "unhealthy": "u", "unknown": "?"}[d.Health]
		n.slots += d.SlotStatus[:1]
	}
	err = s.b.db.QueryRow(s.t.Context(), `SELECT EXISTS (SELECT FROM holds WHERE node_id = $1 AND slot_id IS NULL AND lifted_at IS NULL),
		coalesce((SELECT string_agg(DISTINCT action, ' ' ORDER BY action) FROM health_reports WHERE node_id = $1 AND action <> '' AND action <> 'count'), '')`, s.node).Scan(&n.held, &n.actions)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.claim != (ids.Allocation{}) {
		b := &pgx.Batch{}
		shown := nodehealth.QueueTenantFaults(b, []uuid.UUID{s.claim.UUID})
		if err := s.b.db.SendBatch(s.t.Context(), b).Close(); err != nil {
			s.t.Fatal(err)
		}
		n.notified = len(shown[s.claim]) > 0
		if err := pgx.BeginFunc(s.t.Context(), s.b.db, func(tx pgx.Tx) (err error) {
			_, n.unhealthyFor, err = s.b.UnhealthySince(s.t.Context(), tx, s.claim)
			return err
		}); err != nil {
			s.t.Fatal(err)
		}
	}
	return n
}

// expect compares the visible state with the expected one, while the fault is present or after it.
func (s *scenario) expect(open bool) {
	s.t.Helper()
	h := s.harm
	want := visible{gpus: "hh", slots: "cc"}
	if s.other {
		want.gpus = "dh"
		want.notified = s.claim != (ids.Allocation{})
	}
	if open {
		if h.gpu {
			want.gpus = want.gpus[:1] + h.gpuIs
		}
		want.held = h.node
		if h.action != "count" {
			want.actions = h.action
		}
		slot := h.slot
		switch {
		case s.rules == nil:
		case s.rules.Action == nodehealth.FaultIsReported && h.gpu:
			want.held, slot = false, false
		case s.rules.Action == nodehealth.FaultCordonsNode && h.gpu:
			want.held, slot = h.slot || h.node, false
		}
		if slot && s.claim == (ids.Allocation{}) {
			want.slots = "cq"
		}
		if s.claim != (ids.Allocation{}) {
			want.notified = want.notified || h.notified
			want.unhealthyFor = h.gpuIs == "u"
		}
	}
	if got := s.readState(); got != want {
		s.t.Errorf("%s: %s: is %+v, must be %+v", h.name, s.at, got, want)
	}
}

// circumstances are the situations in which a fault may occur. Each defines how it ends.
var circumstances = []struct {
	name string
	of   func(harm) bool
	run  func(*scenario)
}{
	{"on an idle node, and it ends", func(harm) bool { return true }, func(s *scenario) {
		s.begin("the node is well").expect(false)
		s.happens()
		s.begin("it has happened").expect(true)
		s.begin("it is reported again").expect(true)
		s.ends()
		s.begin("it is over").expect(false)
	}},
	{"beneath a tenant, who leaves", func(harm) bool { return true }, func(s *scenario) {
		s.begin("the node is well")
		s.claimGPUs()
		s.happens()
		s.begin("it has happened").expect(true)
		s.b.free(s.claim, protocol.Proof{Fence: 1, Scrubbed: []string{s.name + "-g0", s.name + "-g1"}})
		s.claim = ids.Allocation{}
		s.at = "the tenant has left"
		s.expect(true)
		s.ends()
		s.begin("it is over").expect(false)
	}},
	{"through a restart of the agent, with another fault", func(harm) bool { return true }, func(s *scenario) {
		s.other = true
		s.begin("the node is nearly well").expect(false)
		s.happens()
		s.begin("it has happened").expect(true)
		s.restart(false)
		s.begin("the agent has restarted").expect(true)
		s.ends()
		s.begin("it is over").expect(false)
	}},
	{"where faults of GPUs cordon the node", func(h harm) bool { return h.gpu && h.xid != 0 }, func(s *scenario) {
		s.rules = &nodehealth.FaultRules{Action: nodehealth.FaultCordonsNode, MassPercent: 100, MassMinimum: 1000}
		s.happens()
		s.begin("it has happened").expect(true)
		s.ends()
		s.begin("it is over").expect(false)
	}},
	{"where faults are only reported", func(h harm) bool { return h.gpu && h.xid == 0 || !h.gpu }, func(s *scenario) {
		s.rules = &nodehealth.FaultRules{Action: nodehealth.FaultIsReported, MassPercent: 100, MassMinimum: 1000}
		s.happens()
		s.begin("it has happened").expect(true)
		s.ends()
		s.begin("it is over").expect(false)
	}},
}

// begin sends a report at the next step.
func (s *scenario) begin(at string) *scenario {
	s.t.Helper()
	s.at = at
	s.now = s.now.Add(time.Minute)
	s.report()
	return s
}

func (s *scenario) claimGPUs() {
	s.t.Helper()
	var slots slots.Placement
	rows, err := s.b.db.Query(s.t.Context(), `SELECT id, gpu_uuid FROM slots WHERE node_id = $1 ORDER BY id`, s.node)
	if err != nil {
		s.t.Fatal(err)
	}
	var id uuid.UUID
	var gpu string
	if _, err := pgx.ForEachRow(rows, []any{&id, &gpu}, func() error {
		slots.IDs, slots.GPUs = append(slots.IDs, id), append(slots.GPUs, gpu)
		return nil
	}); err != nil {
		s.t.Fatal(err)
	}
	slots.Node = s.node
	if s.claim, err = s.b.claimSlots(slots); err != nil {
		s.t.Fatal(err)
	}
}

// ends has the harm end the way that its kind does, and no other way before.
func (s *scenario) ends() {
	s.t.Helper()
	clear(s.says)
	switch s.harm.ends {
	case "time":
		s.restart(true) // does not help
		s.begin("the host OS has restarted").expect(true)
		s.now = s.now.Add(24 * time.Hour)
	case "reset":
		s.now = s.now.Add(48 * time.Hour)
		s.begin("time has passed").expect(true)
		s.ledger.Reset("0000:1b:00.0")
		s.begin("the other GPU was reset").expect(true)
		s.ledger.Reset("0000:43:00.0")
	case "restart":
		s.now = s.now.Add(48 * time.Hour)
		s.ledger.Reset("0000:43:00.0")
		s.begin("it was reset, which does not help").expect(true)
		s.restart(true)
	}
}

func TestFaultScenarios(t *testing.T) {
	t.Parallel()
	b := setup(t)
	runs := 0
	for _, h := range harms {
		for _, c := range circumstances {
			if !c.of(h) {
				continue
			}
			runs++
			t.Run(h.name+" "+c.name, func(t *testing.T) {
				t.Parallel()
				s := &scenario{t: t, b: &bundle{b.Service, t, b.db}, harm: h, now: time.Unix(1e9, 0), says: map[string]string{}}
				s.name = strings.ReplaceAll(uuid.NewString(), "-", "")
				s.open()
				s.node = s.b.node(s.name)
				c.run(s)
			})
		}
	}
	if runs < 300 {
		t.Errorf("%d scenarios, 300 are promised", runs)
	}
}
