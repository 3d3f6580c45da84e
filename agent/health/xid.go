// Package health judges what a host says about its devices. It owns the table of
// XID events and what each asks for; it refuses to call anything healthy that it
// could not read.
package health

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/agent/wire"
)

// Action is what an XID asks for.
type Action string

// The classes, from harmless to worst.
const (
	Ignore      Action = "ignore"
	Count       Action = "count"        // the application failed, the device contained it
	Inspect     Action = "inspect"      // a person should look at the machine
	ResetGPU    Action = "reset_gpu"    // after its slot is drained
	Diagnose    Action = "diagnose"     // drain, reset, field diagnosis on repeat
	NVLink      Action = "nvlink"       // multi-GPU slots off
	RestartHost Action = "restart_host" // all slots of it
	Report      Action = "report"       // unexpected: treated as fatal
)

// xids holds the numbers whose meaning is known. Any other is Report.
var xids = map[int]struct {
	action  Action
	meaning string
}{
	13: {Count, "application fault"}, 31: {Count, "application memory fault"}, 32: {Count, "invalid push buffer"},
	39: {Count, "copy engine fault"}, 40: {Count, "copy engine fault"}, 41: {Count, "copy engine fault"},
	68: {Count, "video processor fault"}, 69: {Count, "graphics engine fault"}, 70: {Count, "copy engine fault"},
	71: {Count, "copy engine fault"}, 72: {Count, "copy engine fault"}, 94: {Count, "contained memory error"},
	43: {Ignore, "application stopped"}, 63: {Ignore, "row remapped"}, 92: {Ignore, "many corrected errors"},
	45: {Ignore, "preemptive cleanup"},
	54: {Inspect, "power connector"}, 151: {Inspect, "key rotation"}, 154: {Inspect, "recovery action changed"},
	46: {ResetGPU, "stopped processing"}, 62: {ResetGPU, "micro-controller halted"}, 64: {ResetGPU, "row remap failed"},
	95: {ResetGPU, "uncontained memory error"}, 109: {ResetGPU, "context switch timeout"}, 110: {ResetGPU, "security fault"},
	119: {ResetGPU, "system processor timeout"}, 120: {ResetGPU, "system processor error"}, 136: {ResetGPU, "link training failed"},
	140: {ResetGPU, "unrecovered memory error"}, 143: {ResetGPU, "initialisation failed"}, 155: {ResetGPU, "link event"},
	156: {ResetGPU, "resource retired"}, 158: {ResetGPU, "fatal timeout"},
	48: {Diagnose, "double-bit memory error"},
	74: {NVLink, "NVLink error"}, 144: {NVLink, "NVLink error"}, 145: {NVLink, "NVLink error"}, 146: {NVLink, "NVLink error"},
	147: {NVLink, "NVLink error"}, 148: {NVLink, "NVLink error"}, 149: {NVLink, "NVLink error"}, 150: {NVLink, "NVLink error"},
	79: {RestartHost, "fallen off the bus"}, 160: {RestartHost, "channel retired"},
}

// ActionOf says what an XID asks for and what it means.
func ActionOf(xid int) (Action, string) {
	if x, ok := xids[xid]; ok {
		return x.action, x.meaning
	}
	return Report, "unexpected"
}

// Of is how an action leaves the device until somebody has taken it.
func (a Action) Of() wire.Health {
	switch a {
	case Ignore:
		return wire.Healthy
	case Count, Inspect:
		return wire.Degraded
	case ResetGPU, Diagnose, NVLink, RestartHost, Report:
		return wire.Unhealthy
	}
	return wire.Unknown
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
		m := xidLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		xid, err := strconv.Atoi(m[2])
		if err != nil {
			return nil, fmt.Errorf("reading XID %q: %w", m[2], err)
		}
		found = append(found, Event{PCIAddress(m[1]), xid})
	}
	return found, lines.Err()
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
func Apply(gpus []wire.GPU, events []Event) {
	for _, e := range events {
		action, meaning := ActionOf(e.XID)
		if action == Ignore {
			continue
		}
		for i := range gpus {
			if gpus[i].PCI == e.PCI {
				Worsen(&gpus[i], action.Of(), fmt.Sprintf("xid %d: %s", e.XID, meaning))
			}
		}
	}
}

// Worsen lowers a device's health, never raises it, and keeps each reason once.
func Worsen(g *wire.GPU, to wire.Health, reason string) {
	if rank(to) > rank(g.Health) {
		g.Health = to
	}
	if !slices.Contains(g.Reasons, reason) {
		g.Reasons = append(g.Reasons, reason)
	}
}

// rank orders health from best to worst. Known to be bad outweighs unknown.
func rank(h wire.Health) int {
	return slices.Index([]wire.Health{wire.Healthy, wire.Degraded, wire.Unknown, wire.Unhealthy}, h)
}
