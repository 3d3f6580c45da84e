package allocation

import (
	"time"

	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/metering"
)

// Subjects of the events that this package emits.
const (
	SubjectRequested     = "provisioning.requested"
	SubjectActive        = "provisioning.active"
	SubjectFailed        = "provisioning.failed"
	SubjectReleasing     = "provisioning.releasing.requested"
	SubjectReleased      = "provisioning.releasing.completed"
	SubjectReleaseFailed = "provisioning.release_failed"
	SubjectForceRelease  = "provisioning.force_release_requested"
	SubjectExpiring      = "provisioning.expiring"
	SubjectDegraded      = "provisioning.degraded"
	SubjectRecovered     = "provisioning.recovered"
)

// RequestedEvent is the payload of provisioning.requested. Each payload also
// carries urn, tenant_id and project_id, which the outbox adds.
type RequestedEvent struct {
	Allocation  string `json:"allocation_id"`
	SKU         string `json:"sku"`
	GPUs        int    `json:"gpus"`
	Region      string `json:"region"`
	OSImage     string `json:"os_image"`
	RequestedBy string `json:"requested_by"`
	Queued      bool   `json:"queued"`
}

// ActiveEvent is the payload of provisioning.active.
type ActiveEvent struct {
	Allocation string      `json:"allocation_id"`
	Slots      int         `json:"slots"`
	ActiveAt   time.Time   `json:"active_at"`
	PriceMinor money.Minor `json:"price_per_hour_minor"` // of all its GPUs
	Currency   string      `json:"currency"`
}

// FailedEvent is the payload of provisioning.failed.
type FailedEvent struct {
	Allocation string `json:"allocation_id"`
	Reason     string `json:"reason"`
	Message    string `json:"message"`
	Attempts   int    `json:"attempts"`
}

// ReleasingEvent is the payload of provisioning.releasing.requested, and of
// provisioning.force_release_requested.
type ReleasingEvent struct {
	Allocation  string `json:"allocation_id"`
	Reason      string `json:"reason"`
	Message     string `json:"message,omitempty"` // of a forced release: the reason of the operator
	RequestedBy string `json:"requested_by"`
}

// ReleasedEvent is the payload of provisioning.releasing.completed. The cost is that of the closed
// interval, charged or not.
type ReleasedEvent struct {
	Allocation string      `json:"allocation_id"`
	ReleasedAt time.Time   `json:"released_at"`
	Seconds    int64       `json:"seconds"`
	CostMinor  money.Minor `json:"cost_minor"`
	Currency   string      `json:"currency"`
}

// ReleaseFailedEvent is the payload of provisioning.release_failed.
type ReleaseFailedEvent struct {
	Allocation string `json:"allocation_id"`
	Reason     string `json:"release_failed_reason"`
	Attempts   int    `json:"attempts"`
	Slots      int    `json:"slots"`
}

// DegradedEvent is the payload of provisioning.degraded.
type DegradedEvent struct {
	Allocation string         `json:"allocation_id"`
	Cause      metering.Cause `json:"cause"`
	Since      time.Time      `json:"since"`
	Charged    bool           `json:"charged"`
}

// RecoveredEvent is the payload of provisioning.recovered.
type RecoveredEvent struct {
	Allocation  string         `json:"allocation_id"`
	Cause       metering.Cause `json:"cause"`
	ChargedFrom time.Time      `json:"charged_from"`
}

func (s *Service) requested(a Allocation, by identity.Caller) event.Draft {
	return s.event(a, SubjectRequested, RequestedEvent{Allocation: a.ID.String(), SKU: a.SKU, GPUs: a.GPUs, Region: a.Region, RequestedBy: by.Actor(), Queued: !a.placed()})
}

// event returns an event with the version of its row, so that a consumer can drop a late one.
func (s *Service) event(a Allocation, subject string, payload any) event.Draft {
	return event.Draft{
		Stream: event.StreamProvisioning, Subject: subject, Aggregate: "allocation:" + a.ID.String(), Sequence: a.Version,
		Tenant: a.Tenant, Project: a.Project, User: a.User, URN: a.URN(s.Naming),
		CorrelationID: a.CorrelationID, Trace: a.Trace, Payload: payload,
	}
}
