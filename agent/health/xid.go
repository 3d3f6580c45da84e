// Package health determines the health of a node from the events of its driver, from probes in child
// processes, and from the time that a fault must last before it counts. The kernel log is only a hint. The levels are in the table of
// protocol/fault. A part that could not be read is unknown, never healthy, and no function waits for a
// call that may hang.
package health

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/protocol/fault"
)

// OfXID returns the fault of an XID.
func OfXID(xid int) fault.Fault {
	f, _ := fault.Of(checkOf(xid))
	return f
}

func checkOf(xid int) string { return "xid_" + strconv.Itoa(xid) }

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

// Event is one XID of one device.
type Event struct {
	PCI string // 0000:53:00.0
	XID int
}

// driverText begins every message of the driver about an XID. The kernel logs a crash with the file names
// of the program, so a tenant can write the same text behind the start of a line.
const driverText = "NVRM: Xid ("

var xidLine = regexp.MustCompile(`^NVRM: Xid \(PCI:([0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?)\): ([0-9]{1,4}), `)

// eventOf returns the XID at the start of a line of the kernel log.
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

// NewXIDReport returns the report about an XID, with the level that its evidence allows.
func NewXIDReport(target string, xid int, evidence protocol.Evidence) protocol.HealthReport {
	r := protocol.HealthReport{Source: SourceXID, Target: target, Check: checkOf(xid), Evidence: evidence}
	f, _ := fault.Reported(r)
	r.Level, r.Classes = f.Rule.Level, f.Rule.Classes
	r.Message = fmt.Sprintf("xid %d: %s", xid, f.Meaning)
	if evidence != protocol.FromDriver {
		r.Message += " (only in the kernel log)"
	}
	return r
}

// SourceXID names the events of the driver and the kernel log as the source of a health report.
const SourceXID = "xid"

// Worsen lowers the health of a device and never raises it. It adds each reason once.
func Worsen(g *protocol.GPU, to protocol.Health, reason string) {
	g.Health = protocol.Worse(g.Health, to)
	if !slices.Contains(g.Reasons, reason) {
		g.Reasons = append(g.Reasons, reason)
	}
}

// MergeHealth sets the health of devices to that of the reports.
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
