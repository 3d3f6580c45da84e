package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/protocol/fault"
)

// Ledger contains the XIDs that nothing has cleared. It survives a restart of the agent, because the
// driver and the kernel log report each once. The table of faults defines what clears an event.
type Ledger struct {
	Boot   string  `json:"boot_id"`
	Read   uint64  `json:"read"` // sequence of the last line of that boot
	Events []Entry `json:"events"`
	// Forged is the time of the last line that imitates a message of the driver.
	Forged time.Time `json:"forged,omitzero"`

	path string
}

// Entry is one XID of one device. A repetition raises Times and adds no entry.
type Entry struct {
	Event

	Times    int               `json:"times"`
	First    time.Time         `json:"first"`
	Last     time.Time         `json:"last"`
	Evidence protocol.Evidence `json:"evidence,omitempty"` // the best so far
}

// mostEvents is above all XIDs of eight boards in one day, and a small part of a report.
const mostEvents = 512

// OpenLedger reads the stored events. A damaged file is replaced: the kernel log of this boot has its
// events again.
func OpenLedger(path, boot string) (*Ledger, error) {
	l := &Ledger{path: path}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("reading stored events: %w", err)
	case json.Unmarshal(text, l) != nil:
		*l = Ledger{path: path}
	}
	if l.Boot != boot {
		l.start(boot)
	}
	return l, nil
}

// start clears the faults that a start of the node clears. A start also resets every GPU.
func (l *Ledger) start(boot string) {
	l.Boot, l.Read = boot, 0
	l.Events = slices.DeleteFunc(l.Events, func(e Entry) bool {
		c := OfXID(e.XID).Clears
		return c == "restart" || c == "reset" || c == "itself"
	})
}

// Add reads a line of the kernel log that is not older than the last one.
func (l *Ledger) Add(sequence uint64, line string, now time.Time) (changed bool) {
	if sequence < l.Read {
		return false
	}
	l.Read = sequence + 1
	e, ok := eventOf(line)
	switch {
	case ok:
		l.put(e, protocol.FromLog, now)
		return true
	case strings.Contains(line, driverText):
		l.Forged = now
		return true
	}
	return false
}

// AddEvent adds an event that the driver has reported.
func (l *Ledger) AddEvent(e Event, now time.Time) { l.put(e, protocol.FromDriver, now) }

func (l *Ledger) put(e Event, from protocol.Evidence, now time.Time) {
	i := slices.IndexFunc(l.Events, func(k Entry) bool { return k.Event == e })
	if i < 0 {
		l.evictHint()
		l.Events = append(l.Events, Entry{Event: e, First: now})
		i = len(l.Events) - 1
	}
	l.Events[i].Times++
	l.Events[i].Last = now
	if l.Events[i].Evidence != protocol.FromDriver {
		l.Events[i].Evidence = from
	}
}

// evictHint deletes the oldest hint of a full ledger, so that no number of hints displaces an event of the
// driver.
func (l *Ledger) evictHint() {
	if len(l.Events) < mostEvents {
		return
	}
	oldest := 0
	for i, e := range l.Events {
		if o := l.Events[oldest]; isHint(e) && (!isHint(o) || e.Last.Before(o.Last)) {
			oldest = i
		}
	}
	l.Events = slices.Delete(l.Events, oldest, oldest+1)
}

func isHint(e Entry) bool { return e.Evidence != protocol.FromDriver }

// Expire deletes the events that time clears.
func (l *Ledger) Expire(now time.Time) (changed bool) {
	before := len(l.Events)
	l.Events = slices.DeleteFunc(l.Events, func(e Entry) bool {
		f := OfXID(e.XID)
		return f.Clears == "time" && now.Sub(e.Last) >= f.ClearAfter
	})
	forged, _ := fault.Of(checkForged)
	over := !l.Forged.IsZero() && now.Sub(l.Forged) >= forged.ClearAfter
	if over {
		l.Forged = time.Time{}
	}
	return over || len(l.Events) != before
}

// checkForged marks a line of the kernel log that imitates a message of the driver.
const checkForged = "kernel_log_forged"

// Reset deletes the events that a reset of the device clears.
func (l *Ledger) Reset(pci string) (changed bool) {
	before := len(l.Events)
	l.Events = slices.DeleteFunc(l.Events, func(e Entry) bool { return e.PCI == pci && OfXID(e.XID).Clears == "reset" })
	return len(l.Events) != before
}

// Reports returns the open events of each device, or that it has none. It leaves out the events of a device
// that the node does not list.
func (l *Ledger) Reports(gpus []protocol.GPU) (all []protocol.HealthReport) {
	spoken := map[string]bool{}
	for _, e := range l.Events {
		i := slices.IndexFunc(gpus, func(g protocol.GPU) bool { return g.PCI == e.PCI })
		if i < 0 {
			continue
		}
		r := NewXIDReport(gpus[i].UUID, e.XID, e.Evidence)
		r.Since = e.First.UTC().Truncate(time.Second)
		all = append(all, r)
		spoken[gpus[i].UUID] = true
	}
	for _, g := range gpus {
		if !spoken[g.UUID] {
			all = append(all, Well(SourceXID, g.UUID))
		}
	}
	if !l.Forged.IsZero() {
		all = append(all, NewReport(SourceXID, "", checkForged, ""))
	}
	return all
}

// Save writes the ledger to disk, so that it survives a crash.
func (l *Ledger) Save() error {
	text, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("encoding stored events: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(l.path), ".health-*")
	if err != nil {
		return fmt.Errorf("keeping events: %w", err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already when all went well
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), l.path)
	}
	if err != nil {
		return fmt.Errorf("keeping events: %w", err)
	}
	return nil
}
