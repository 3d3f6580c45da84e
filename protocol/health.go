package protocol

import (
	"cmp"
	"slices"
	"time"
)

// HealthReport is the report of one source about the node or one of its GPUs. Every source reports
// all its targets every time, also the healthy ones, because a source that is missing from a report
// is an alert.
//
// Message contains no value that changes between reports, such as a temperature: an unchanged
// report costs the control plane one row.
type HealthReport struct {
	Source  string    `json:"source"`            // xid, driver, pcie, disk, clock …
	Target  string    `json:"target,omitempty"`  // GPU UUID; empty: the node
	Check   string    `json:"id,omitempty"`      // what raised it: xid_79, row_remap_failed; empty when all is well
	Level   Health    `json:"level"`             // as the node determines it; the control plane uses its own table
	Message string    `json:"message,omitempty"` // one sentence for an operator
	Classes []Class   `json:"classes,omitempty"` // sorted
	Since   time.Time `json:"since"`             // the node's clock: displayed, never used for a decision
	// Evidence is the origin of an XID. Only one that the driver reported has consequences.
	Evidence Evidence `json:"evidence,omitempty"`
}

// Evidence is the origin of an XID. An empty one, of an older agent, is the kernel log.
type Evidence string

// The origins of an XID.
const (
	FromDriver Evidence = "driver"     // the event set of the driver
	FromLog    Evidence = "kernel_log" // a hint: programs of tenants can write to the log
)

// Class is the required response of the reader of a report.
type Class string

// The classes are those of NVIDIA's NICo.
const (
	PreventAllocations   Class = "prevent_allocations"            // hand nothing out on it
	PreventHostChanges   Class = "prevent_host_state_changes"     // leave the node unchanged
	SuppressAlerting     Class = "suppress_external_alerting"     // no alert is sent for it
	ExcludeFromDeadlines Class = "exclude_from_state_machine_sla" // a delay by this fault is not late
)

const (
	maxHealthReports = 4096 // 256 GPUs with a few sources each
	maxHealthMessage = 512
	maxHealthName    = 64
)

// Classes returns all classes, sorted.
func Classes() []Class {
	return []Class{ExcludeFromDeadlines, PreventAllocations, PreventHostChanges, SuppressAlerting}
}

// SortHealth sorts reports, so that the same health always has the same bytes.
func SortHealth(reports []HealthReport) {
	slices.SortFunc(reports, func(a, b HealthReport) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Check, b.Check))
	})
}

// CheckHealth rejects reports that no table could store. The control plane calls it before it uses the
// report of a node.
func CheckHealth(reports []HealthReport) error {
	if len(reports) > maxHealthReports {
		return Reject(ParamsInvalid, "%d health reports, the maximum is %d", len(reports), maxHealthReports)
	}
	type key struct{ source, target, check string }
	seen := map[key]bool{}
	for _, r := range reports {
		k := key{r.Source, r.Target, r.Check}
		switch {
		case r.Source == "" || len(r.Source) > maxHealthName || len(r.Target) > maxHealthName || len(r.Check) > maxHealthName:
			return Reject(ParamsInvalid, "health report of %.80q about %.80q has no proper names", r.Source, r.Target)
		case len(r.Message) > maxHealthMessage:
			return Reject(ParamsInvalid, "health report %s of %s has more than %d bytes", r.Check, r.Source, maxHealthMessage)
		case seen[k]:
			return Reject(ParamsInvalid, "health report %s of %s about %q is a duplicate", r.Check, r.Source, r.Target)
		case !slices.Contains([]Health{Healthy, Degraded, Unhealthy, Unknown}, r.Level):
			return Reject(ParamsInvalid, "health %.40q is none", r.Level)
		case !slices.Contains([]Evidence{"", FromDriver, FromLog}, r.Evidence):
			return Reject(ParamsInvalid, "health report %s of %s has unknown evidence %.40q", r.Check, r.Source, r.Evidence)
		case slices.ContainsFunc(r.Classes, func(c Class) bool { return !slices.Contains(Classes(), c) }):
			return Reject(ParamsInvalid, "health report %s of %s has an unknown class", r.Check, r.Source)
		}
		seen[k] = true
	}
	return nil
}

// HealthOrder returns the position of h between best and worst. Unhealthy is worse than unknown.
func HealthOrder(h Health) int {
	return slices.Index([]Health{Healthy, Degraded, Unknown, Unhealthy}, h)
}

// Worse returns the worse of two values.
func Worse(a, b Health) Health {
	if HealthOrder(b) > HealthOrder(a) {
		return b
	}
	return a
}
