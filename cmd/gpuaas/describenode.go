package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/api/oapi"
)

// nodeAdvice is what to do next, in plain words; nothing where nothing is to be done.
func (a *app) nodeAdvice(n oapi.Node) (advice []string) {
	add := func(format string, args ...any) { advice = append(advice, fmt.Sprintf(format, args...)) }
	switch n.Lifecycle {
	case oapi.NodeLifecycleDeclared:
		add("It has not come in yet: gpuaas node re-enrol %s prints the line to run on the host.", n.Name)
	case oapi.NodeLifecycleEnrolled:
		add("It is enrolled and has not reported whole yet, or its agent carries out no allocations: gpuaas-agent doctor, on the host.")
	case oapi.NodeLifecycleDraining:
		add("%s. gpuaas node uncordon %s calls it off.", a.drainWaits(n), n.Name)
	case oapi.NodeLifecycleDrained:
		add("Nobody stands on it: work on it, then gpuaas node uncordon %s, or gpuaas node retire %s.", n.Name, n.Name)
	case oapi.NodeLifecycleActive, oapi.NodeLifecycleOffline, oapi.NodeLifecycleCommissioning, oapi.NodeLifecycleRetired:
	}
	if n.Reachability != oapi.NodeReachabilityReachable && n.Lifecycle != oapi.NodeLifecycleDeclared {
		add("Its agent is silent: systemctl status gpuaas-agent gpuaas-agent-helper, on the host. What runs there is unknown, and nothing is sold of it.")
	}
	if left := certified(deref(n.Certificates)); n.Certificates != nil && left == 0 && n.Lifecycle != oapi.NodeLifecycleDeclared {
		add("No certificate of it is in force: gpuaas node re-enrol %s prints the line to run on the host.", n.Name)
	}
	if n.Changed != nil {
		add("Its hardware has changed (%s). If that is right: gpuaas node accept %s --fingerprint %.12s --reason …", *n.Changed, n.Name, deref(n.ReportedFingerprint))
	}
	for _, h := range deref(n.HealthReports) {
		if h.Advice != nil && h.Level != oapi.HealthReportLevelHealthy {
			add("%s: %s", orDash(h.Check), *h.Advice)
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

func nextSection(advice []string) []section {
	if len(advice) == 0 {
		return nil
	}
	t := table{}
	for _, words := range advice {
		t.add("", words)
	}
	return []section{{title: "Next:", table: t}}
}

func holdTable(all []oapi.Hold) table {
	t := table{head: []string{"KIND", "CAUSE", "OWNER", "SINCE", "UNTIL", "SLOT", "REASON"}}
	for _, h := range all {
		slot := "-"
		if h.SlotId != nil {
			slot = h.SlotId.String()
		}
		t.add("", string(h.Kind), string(h.Cause), ownerOf(h), stamp(h.CreatedAt), until(h.Deadline), slot, cell(h.Reason))
	}
	return t
}

func gpuTable(all []oapi.Gpu) table {
	t := table{head: []string{"INDEX", "UUID", "MODEL", "HEALTH", "SLOT", "HOLDER", "REASONS"}}
	for _, g := range all {
		health, holder := g.Health, "-"
		if !g.Present {
			health += ", missing"
		}
		if g.AllocationId != nil {
			holder = orDash(deref(g.AllocationName))
			if g.AllocationName == nil {
				holder = g.AllocationId.String()
			}
		}
		t.add("", strconv.Itoa(g.Index), g.Uuid, g.Model, health, orDash(g.SlotStatus), holder, orDash(strings.TrimSpace(strings.Join(g.Reasons, ", ")+" "+g.SlotReason)))
	}
	return t
}

func healthTable(all []oapi.HealthReport) table {
	t := table{head: []string{"SOURCE", "LEVEL", "CHECK", "TARGET", "SINCE", "UNTIL", "MESSAGE"}}
	for _, h := range all {
		t.add("", h.Source, string(h.Level), orDash(h.Check), orDash(h.Target), stamp(h.Since), until(h.Until), cell(h.Message))
	}
	return t
}

func taskTable(all []oapi.NodeTask) table {
	t := table{head: []string{"ASKED", "TYPE", "STATUS", "FENCE", "TRY", "STEP", "CODE", "MESSAGE"}}
	for _, k := range all {
		t.add("", stamp(k.CreatedAt), k.Type, string(k.Status), itoa(k.Fence), strconv.Itoa(k.Attempt), orDash(deref(k.Step)), orDash(deref(k.Code)), cell(deref(k.Message)))
	}
	return t
}

func certificateTable(all []oapi.NodeCertificate) table {
	t := table{head: []string{"SERIAL", "STATUS", "UNTIL", "REVOKED", "REASON"}}
	for _, c := range all {
		t.add("", c.Serial, string(c.Status), stamp(c.NotAfter), until(c.RevokedAt), cell(deref(c.Reason)))
	}
	return t
}
