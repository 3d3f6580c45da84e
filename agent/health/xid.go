// Package health determines the health of a node from its kernel log, from probes in child processes,
// and from the time that a fault must last before it counts. The levels come from the table of
// protocol/fault. A part that could not be read is unknown, never healthy, and no function waits for a
// call that may hang.
package health

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/protocol/fault"
)

// OfXID returns the fault of an XID.
func OfXID(xid int) fault.Fault {
	f, _ := fault.Of("xid_" + strconv.Itoa(xid))
	return f
}

// NewReport returns the report of a fault by a source, with the level of the table.
func NewReport(source, target, check, message string) protocol.HealthReport {
	f, ok := fault.Of(check)
	if !ok {
		f.Rule.Level = protocol.Unknown
	}
	if message == "" {
		message = f.Meaning
	}
	return protocol.HealthReport{Source: source, Target: target, Check: check, Level: f.Rule.Level, Message: message, Classes: f.Rule.Classes}
}

// Well returns a healthy report of a source.
func Well(source, target string) protocol.HealthReport {
	return protocol.HealthReport{Source: source, Target: target, Level: protocol.Healthy}
}

// Event is one XID of the kernel log.
type Event struct {
	PCI string // 0000:53:00.0
	XID int
}

var xidLine = regexp.MustCompile(`NVRM: Xid \(PCI:([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)\): ([0-9]{1,4})\b`)

// Events finds the XIDs in a kernel log, oldest first.
func Events(log io.Reader) ([]Event, error) {
	var found []Event
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if e, ok := eventOf(lines.Text()); ok {
			found = append(found, e)
		}
	}
	return found, lines.Err()
}

func eventOf(line string) (Event, bool) {
	m := xidLine.FindStringSubmatch(line)
	if m == nil {
		return Event{}, false
	}
	xid, err := strconv.Atoi(m[2])
	return Event{PCIAddress(m[1]), xid}, err == nil
}

// PCIAddress is the form 0000:1b:00.0 of an address as drivers write it: with a
// domain of four or eight digits, in either case, with or without a function.
func PCIAddress(s string) string {
	s = strings.ToLower(s)
	if domain, rest, ok := strings.Cut(s, ":"); ok && len(domain) == 8 && strings.HasPrefix(domain, "0000") {
		s = domain[4:] + ":" + rest
	}
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// Apply adds what the events say to the devices they name.
func Apply(gpus []protocol.GPU, events []Event) {
	for _, e := range events {
		f := OfXID(e.XID)
		if f.Rule.Level == protocol.Healthy {
			continue
		}
		for i := range gpus {
			if gpus[i].PCI == e.PCI {
				Worsen(&gpus[i], f.Rule.Level, xidMessage(e.XID, f))
			}
		}
	}
}

func xidMessage(xid int, f fault.Fault) string { return fmt.Sprintf("xid %d: %s", xid, f.Meaning) }

// NewXIDReport returns the report of a source about an XID.
func NewXIDReport(target string, xid int) protocol.HealthReport {
	f := OfXID(xid)
	return NewReport(SourceXID, target, f.ID, xidMessage(xid, f))
}

// SourceXID names the kernel log as the source of a health report.
const SourceXID = "xid"

// Worsen lowers the health of a device and never raises it. It adds each reason once.
func Worsen(g *protocol.GPU, to protocol.Health, reason string) {
	g.Health = protocol.Worse(g.Health, to)
	if !slices.Contains(g.Reasons, reason) {
		g.Reasons = append(g.Reasons, reason)
	}
}

// MergeHealth makes the health of devices what the reports say of them.
func MergeHealth(gpus []protocol.GPU, reports []protocol.HealthReport) {
	for i := range gpus {
		gpus[i].Health, gpus[i].Reasons = protocol.Healthy, nil
		said := false
		for _, r := range reports {
			if r.Target != gpus[i].UUID {
				continue
			}
			said = true
			if r.Level != protocol.Healthy {
				Worsen(&gpus[i], r.Level, r.Message)
			}
		}
		if !said {
			Worsen(&gpus[i], protocol.Unknown, "no source reports it")
		}
	}
}
