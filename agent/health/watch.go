package health

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/protocol"
)

// Watch stores the last results of probes, and the XIDs of the driver and the kernel log, so that no caller waits for a driver.
// Its fields are set before its first use.
type Watch struct {
	// Run starts a probe in a child and returns what it printed.
	Run func(ctx context.Context, probe string) ([]byte, error)
	// Ledger stores XIDs. It is nil without one.
	Ledger *Ledger
	Log    *slog.Logger
	Clock  clock.Clock
	Kernel *KernelLog
	Extra  []string // further probes that Run can execute

	Every  time.Duration // between two checks; 30 s when zero
	Within time.Duration // for one; 10 s when zero
	First  time.Duration // how long the first check waits for its probes; 5 s when zero

	mu       sync.Mutex
	probes   map[string]*probeState
	patience Patience
	replays  map[string]int64
}

// probeState is one probe and its last answer.
type probeState struct {
	began, ended time.Time
	running      bool
	answered     chan struct{} // closed by the first end
	answer       Answer
	err          error
}

// Answer is the output of a child.
type Answer struct {
	Health   []protocol.HealthReport `json:"health,omitempty"`
	Topology *protocol.Topology      `json:"topology,omitempty"`
}

const (
	probeEvery  = 30 * time.Second
	probeWithin = 10 * time.Second
	firstWait   = 5 * time.Second
	// maxMissed limits the consecutive failures of a probe before its result becomes unknown.
	maxMissed = 3
)

func valueOr(d, usual time.Duration) time.Duration {
	if d == 0 {
		return usual
	}
	return d
}

// Check returns the reports of every source. gpus are the devices in the driver's list, driver
// contains the driver's reports, and err is the reason why there are none.
func (w *Watch) Check(ctx context.Context, gpus []protocol.GPU, driver []protocol.HealthReport, err error) []protocol.HealthReport {
	w.Query(ctx)
	now := w.Clock.Now()
	all := slices.Clone(driver)
	if err != nil {
		all = append(all, NewReport("driver", "", "driver_silent", ""))
	}
	all = append(all, w.heard(ctx, gpus, now)...)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.names() {
		if _, health := Probes[name]; health {
			all = append(all, w.probes[name].reports(name, gpus, now, valueOr(w.Every, probeEvery))...)
		}
	}
	if w.patience == nil {
		w.patience = Patience{}
	}
	all = w.patience.Weigh(all, now)
	protocol.SortHealth(all)
	return all
}

// Topology returns the last result of the probe of that name. It is nil before the first result, or if
// the probe hangs.
func (w *Watch) Topology(name string) *protocol.Topology {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.probes[name]; a != nil && a.err == nil && !a.hangs(w.Clock.Now(), valueOr(w.Every, probeEvery)) {
		return a.answer.Topology
	}
	return nil
}

func (w *Watch) names() []string {
	return append(slices.Sorted(maps.Keys(Probes)), w.Extra...)
}

// Query starts what is due, and gives the first round a moment.
func (w *Watch) Query(ctx context.Context) {
	w.query(ctx)
	w.wait(ctx)
}

// query starts what is due. One that still hangs is not started again: in a driver's
// uninterruptible sleep a child outlives even SIGKILL, and a second would join it.
func (w *Watch) query(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.probes == nil {
		w.probes = map[string]*probeState{}
	}
	now := w.Clock.Now()
	for _, name := range w.names() {
		a := w.probes[name]
		if a == nil {
			a = &probeState{answered: make(chan struct{})}
			w.probes[name] = a
		}
		if a.running || !a.began.IsZero() && now.Sub(a.began) < valueOr(w.Every, probeEvery) {
			continue
		}
		a.running, a.began = true, now
		go w.run(context.WithoutCancel(ctx), name, a)
	}
}

func (w *Watch) run(ctx context.Context, name string, a *probeState) {
	ctx, cancel := context.WithTimeout(ctx, valueOr(w.Within, probeWithin))
	defer cancel()
	text, err := w.Run(ctx, name)
	var answer Answer
	if err == nil {
		err = protocol.Strict(bytesReader(text), &answer)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	a.running, a.ended, a.err = false, w.Clock.Now(), err
	if err == nil {
		a.answer = answer
	} else {
		w.Log.WarnContext(ctx, "probe failed", "probe", name, "err", err)
	}
	select {
	case <-a.answered:
	default:
		close(a.answered)
	}
}

// wait gives the first round a moment, so that a node's first report is whole.
func (w *Watch) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, valueOr(w.First, firstWait))
	defer cancel()
	w.mu.Lock()
	waits := make([]chan struct{}, 0, len(w.probes))
	for _, a := range w.probes {
		waits = append(waits, a.answered)
	}
	w.mu.Unlock()
	for _, done := range waits {
		select {
		case <-done:
		case <-ctx.Done():
			return
		}
	}
}

// hangs reports whether a probe is overdue. Its last result stays valid for some time, because a driver
// may be busy.
func (a *probeState) hangs(now time.Time, every time.Duration) bool {
	return a.running && now.Sub(a.began) >= maxMissed*every
}

// reports returns the last report of the probe, or unknown if it has none.
func (a *probeState) reports(name string, gpus []protocol.GPU, now time.Time, every time.Duration) []protocol.HealthReport {
	if a == nil || a.ended.IsZero() || a.err != nil || a.hangs(now, every) {
		return []protocol.HealthReport{NewReport(name, "", "probe_silent", "probe "+name+" does not answer")}
	}
	said := slices.Clone(a.answer.Health)
	for i, r := range said {
		if at := slices.IndexFunc(gpus, func(g protocol.GPU) bool { return g.PCI == r.Target }); at >= 0 {
			said[i].Target = gpus[at].UUID
		}
	}
	return said
}

// heard reads the new lines of the kernel log and returns the open events.
func (w *Watch) heard(ctx context.Context, gpus []protocol.GPU, now time.Time) []protocol.HealthReport {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Ledger == nil {
		return nil
	}
	changed := w.Ledger.Expire(now)
	if w.Kernel != nil {
		more, lost, err := w.Kernel.ReadInto(w.Ledger, now)
		changed = changed || more
		if err != nil || lost {
			w.Log.WarnContext(ctx, "kernel log not read completely", "lost", lost, "err", err)
		}
	}
	if changed {
		w.save(ctx)
	}
	return w.Ledger.Reports(gpus)
}

// DriverEvent stores an XID that the driver has reported.
func (w *Watch) DriverEvent(ctx context.Context, e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Ledger != nil {
		w.Ledger.AddEvent(e, w.Clock.Now())
		w.save(ctx)
	}
}

func (w *Watch) save(ctx context.Context) {
	if err := w.Ledger.Save(); err != nil {
		w.Log.ErrorContext(ctx, "events not stored", "err", err)
	}
}

// WasReset deletes the events that a reset of the device has cleared.
func (w *Watch) WasReset(pci string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.Ledger == nil || !w.Ledger.Reset(pci) {
		return nil
	}
	return w.Ledger.Save()
}

// manyReplays is the number of replays between two checks above which noise does not explain them.
const manyReplays = 100

// Links checks the PCI link of each card. It reports a link that is narrower than card and slot allow,
// and a link whose replay counter rises faster than noise explains. The width of the slot is known only
// if the port above the card is visible, which is not the case in every virtual machine.
func (w *Watch) Links(cards []protocol.Card, replays map[string]int64) (said []protocol.HealthReport) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range cards {
		if c.UUID == "" {
			continue
		}
		before := len(said)
		if l := c.Link; len(c.Switches) > 0 && l.Width > 0 && l.Width < l.MaxWidth {
			said = append(said, NewReport("pcie", c.UUID, "pcie_width", fmt.Sprintf("its PCIe link is x%d and could be x%d", l.Width, l.MaxWidth)))
		}
		if was, known := w.replays[c.UUID]; known && replays[c.UUID]-was >= manyReplays {
			said = append(said, NewReport("pcie", c.UUID, "pcie_replays", ""))
		}
		if len(said) == before {
			said = append(said, Well("pcie", c.UUID))
		}
	}
	w.replays = maps.Clone(replays)
	return said
}

// Child executes a probe in a child process and prints the result.
func Child(ctx context.Context, name, root string, out func([]byte) error) error {
	probe, ok := Probes[name]
	if !ok {
		return fmt.Errorf("no probe %q", name)
	}
	said, err := probe(ctx, filepath.Clean(root+"/"))
	if err != nil {
		return fmt.Errorf("probing %s: %w", name, err)
	}
	return Print(Answer{Health: said}, out)
}

// Print writes what a child found.
func Print(a Answer, out func([]byte) error) error {
	text, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encoding the response: %w", err)
	}
	return out(text)
}
