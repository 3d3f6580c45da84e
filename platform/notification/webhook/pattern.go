package webhook

import (
	"slices"
	"strings"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
)

// subjects are the events that an endpoint can receive, by stream: all of api/asyncapi but dead letters. A test compares
// them with the contract.
var subjects = map[string][]string{
	event.StreamProvisioning: {
		"provisioning.access_lost", "provisioning.active", "provisioning.degraded", "provisioning.expiring", "provisioning.failed",
		"provisioning.force_release_requested", "provisioning.recovered", "provisioning.release_cancelled", "provisioning.release_failed", "provisioning.release_scheduled",
		"provisioning.releasing.completed", "provisioning.releasing.requested", "provisioning.requested",
	},
	event.StreamBilling: {
		"billing.auto_release_cleared", "billing.auto_release_pending", "billing.balance_adjusted", "billing.balance_depleted", "billing.low_balance_warning", "billing.storage_deleted", "billing.storage_deletion_cancelled", "billing.storage_deletion_scheduled",
	},
	event.StreamPayments: {
		"payments.auto_topup_changed", "payments.auto_topup_paused", "payments.balance_credited", "payments.disputed", "payments.reconcile_failed", "payments.refunded",
	},
	event.StreamFleet: {
		"fleet.agent_update_stopped", "fleet.drift_closed", "fleet.drift_opened", "fleet.mass_action_stopped", "fleet.node_drain_cancelled", "fleet.node_drained",
		"fleet.node_draining", "fleet.node_enrolled", "fleet.node_health_changed", "fleet.node_retiring", "fleet.object_changed", "fleet.plan_decided", "fleet.revision_applied",
		"fleet.revision_rejected", "fleet.revision_waiting", "fleet.slot_quarantined",
	},
}

// tenantFleet is the only subject of the fleet whose events belong to a tenant. The others are for operators.
const tenantFleet = "fleet.node_retiring"

// Subjects lists the events that an endpoint of a tenant can receive.
func Subjects() (all []string) {
	for stream, of := range subjects {
		if stream == event.StreamFleet {
			of = []string{tenantFleet}
		}
		all = append(all, of...)
	}
	slices.Sort(all)
	return all
}

// subjectsOf lists the events that an endpoint can receive. Only those of allocations have a project.
func subjectsOf(project ids.Project) []string {
	if project == (ids.Project{}) {
		return Subjects()
	}
	return subjects[event.StreamProvisioning]
}

// patternsOf returns the patterns that match a subject: itself, and each beginning with an asterisk.
func patternsOf(subject string) []string {
	all := []string{subject}
	for i, r := range subject {
		if r == '.' {
			all = append(all, subject[:i]+".*")
		}
	}
	return all
}

const maxPatterns = 50

func levelOf(project ids.Project) string {
	if project == (ids.Project{}) {
		return "tenant"
	}
	return "project"
}

// checkPatterns returns the patterns sorted and without repetitions.
func checkPatterns(project ids.Project, patterns []string) ([]string, error) {
	if len(patterns) == 0 || len(patterns) > maxPatterns {
		return nil, errs.Invalid("events", "must be 1 to %d patterns", maxPatterns)
	}
	var allowed []string
	for _, subject := range subjectsOf(project) {
		allowed = append(allowed, patternsOf(subject)...)
	}
	slices.Sort(allowed)
	allowed = slices.Compact(allowed)
	for _, p := range patterns {
		if !slices.Contains(allowed, p) {
			return nil, errs.Invalid("events", "pattern %q matches no event of the %s", p, levelOf(project)).Try("use some of: %s", strings.Join(allowed, ", ")).With("allowed", allowed)
		}
	}
	chosen := slices.Clone(patterns)
	slices.Sort(chosen)
	return slices.Compact(chosen), nil
}
