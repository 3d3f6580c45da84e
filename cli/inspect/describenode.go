package inspect

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/cli/fleet"
	"github.com/gpuaas/gpuaas/cli/output"
)

// nodeAdvice returns the next actions for an operator, or nothing if none is needed.
func nodeAdvice(a *output.Console, n oapi.Node) (advice []string) {
	add := func(format string, args ...any) { advice = append(advice, fmt.Sprintf(format, args...)) }
	switch n.Lifecycle {
	case oapi.NodeLifecycleDeclared:
		add("The node has not enrolled yet: gpuaas node re-enrol %s prints the command to run on the node.", n.Name)
	case oapi.NodeLifecycleEnrolled:
		add("The node is enrolled but has not sent a complete report, or its agent cannot run allocations: run gpuaas-agent doctor on the node.")
	case oapi.NodeLifecycleDraining:
		add("%s. gpuaas node uncordon %s calls it off.", fleet.DrainWaits(a, n), n.Name)
	case oapi.NodeLifecycleDrained:
		add("The node has no allocations. After the work run gpuaas node uncordon %s, or gpuaas node retire %s.", n.Name, n.Name)
	case oapi.NodeLifecycleActive, oapi.NodeLifecycleOffline, oapi.NodeLifecycleCommissioning, oapi.NodeLifecycleRetired:
	}
	if n.Reachability != oapi.NodeReachabilityReachable && n.Lifecycle != oapi.NodeLifecycleDeclared {
		add("The agent does not report: run systemctl status gpuaas-agent gpuaas-agent-helper on the node. The state of its allocations is unknown, and its slots are not sold.")
	}
	if left := certified(output.ValueOrZero(n.Certificates)); n.Certificates != nil && left == 0 && n.Lifecycle != oapi.NodeLifecycleDeclared {
		add("The node has no valid certificate: gpuaas node re-enrol %s prints the command to run on the node.", n.Name)
	}
	if n.Changed != nil {
		add("Its hardware has changed (%s). If that is right: gpuaas node accept %s --fingerprint %.12s --reason …", *n.Changed, n.Name, output.ValueOrZero(n.ReportedFingerprint))
	}
	for _, h := range output.ValueOrZero(n.HealthReports) {
		if h.Advice != nil && h.Level != oapi.HealthReportLevelHealthy {
			add("%s: %s", output.OrDash(h.Check), *h.Advice)
		}
	}
	return advice
}

func certified(all []oapi.NodeCertificate) (left int) {
	for _, c := range all {
		if c.Status == oapi.NodeCertificateStatusActive || c.Status == oapi.NodeCertificateStatusSuperseded {
			left++
		}
	}
	return left
}

func nextSection(advice []string) []output.Section {
	if len(advice) == 0 {
		return nil
	}
	t := output.Table{}
	for _, words := range advice {
		t.Add("", words)
	}
	return []output.Section{{Title: "Next:", Table: t}}
}

func holdTable(all []oapi.Hold) output.Table {
	t := output.Table{Head: []string{"KIND", "CAUSE", "OWNER", "SINCE", "UNTIL", "SLOT", "REASON"}}
	for _, h := range all {
		slot := "-"
		if h.SlotId != nil {
			slot = h.SlotId.String()
		}
		t.Add("", string(h.Kind), string(h.Cause), fleet.OwnerOf(h), output.FormatTime(h.CreatedAt), output.ExpiryText(h.DeadlineAt), slot, output.CellText(h.Reason))
	}
	return t
}

func gpuTable(all []oapi.Gpu) output.Table {
	t := output.Table{Head: []string{"INDEX", "UUID", "MODEL", "HEALTH", "SLOT", "HOLDER", "REASONS"}}
	for _, g := range all {
		health, holder := g.Health, "-"
		if !g.Present {
			health += ", missing"
		}
		if g.AllocationId != nil {
			holder = output.OrDash(output.ValueOrZero(g.AllocationName))
			if g.AllocationName == nil {
				holder = g.AllocationId.String()
			}
		}
		t.Add("", strconv.Itoa(g.Index), g.Uuid, g.Model, health, output.OrDash(g.SlotStatus), holder, output.OrDash(strings.TrimSpace(strings.Join(g.Reasons, ", ")+" "+g.SlotReason)))
	}
	return t
}

func healthTable(all []oapi.HealthReport) output.Table {
	t := output.Table{Head: []string{"SOURCE", "LEVEL", "CHECK", "TARGET", "SINCE", "UNTIL", "MESSAGE"}}
	for _, h := range all {
		t.Add("", h.Source, string(h.Level), output.OrDash(h.Check), output.OrDash(h.Target), output.FormatTime(h.StartedAt), output.ExpiryText(h.Until), output.CellText(h.Message))
	}
	return t
}

func taskTable(all []oapi.NodeTask) output.Table {
	t := output.Table{Head: []string{"ASKED", "TYPE", "STATUS", "FENCE", "TRY", "STEP", "CODE", "MESSAGE"}}
	for _, k := range all {
		t.Add("", output.FormatTime(k.CreatedAt), k.Type, string(k.Status), output.Itoa(k.Fence), strconv.Itoa(k.Attempt), output.OrDash(output.ValueOrZero(k.Step)), output.OrDash(output.ValueOrZero(k.Code)), output.CellText(output.ValueOrZero(k.Message)))
	}
	return t
}

func certificateTable(all []oapi.NodeCertificate) output.Table {
	t := output.Table{Head: []string{"SERIAL", "STATUS", "UNTIL", "REVOKED", "REASON"}}
	for _, c := range all {
		t.Add("", c.Serial, string(c.Status), output.FormatTime(c.NotAfter), output.ExpiryText(c.RevokedAt), output.CellText(output.ValueOrZero(c.Reason)))
	}
	return t
}

// agentOf names the version that runs, and the update that is in progress or was the last.
func agentOf(n oapi.Node) string {
	text := output.OrDash(output.ValueOrZero(n.RunningAgentVersion))
	if updates := output.ValueOrZero(n.AgentUpdates); len(updates) > 0 {
		u := updates[0]
		text += fmt.Sprintf("; update to %s: %s since %s", u.Version, u.Status, output.FormatTime(u.UpdatedAt))
		if u.Message != "" {
			text += ", " + output.CellText(u.Message)
		}
	}
	return text
}

// serialsOf lists the serial numbers that the hardware has.
func serialsOf(s *oapi.NodeSerials) string {
	if s == nil {
		return "-"
	}
	var parts []string
	add := func(name string, serial *string) {
		if serial != nil {
			parts = append(parts, name+" "+*serial)
		}
	}
	add("chassis", s.Chassis)
	add("board", s.Board)
	for _, p := range append(s.Cpus, s.Nics...) {
		add(p.Name, p.Serial)
	}
	return output.OrDash(output.CellText(strings.Join(parts, ", ")))
}
