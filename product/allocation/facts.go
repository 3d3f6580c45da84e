package allocation

import (
	"time"

	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// The subjects that this room states facts under.
const (
	SubjectRequested     = "provisioning.requested"
	SubjectActive        = "provisioning.active"
	SubjectFailed        = "provisioning.failed"
	SubjectReleasing     = "provisioning.releasing.requested"
	SubjectReleased      = "provisioning.releasing.completed"
	SubjectReleaseFailed = "provisioning.release_failed"
	SubjectForceRelease  = "provisioning.force_release_requested"
)

// RequestedFact is the payload of provisioning.requested. Each payload also
// carries urn, tenant_id and project_id, which the outbox adds.
type RequestedFact struct {
	Allocation  string `json:"allocation_id"`
	SKU         string `json:"sku"`
	GPUs        int    `json:"gpus"`
	Region      string `json:"region"`
	OSImage     string `json:"os_image"`
	RequestedBy string `json:"requested_by"`
	Queued      bool   `json:"queued"`
}

// ActiveFact is the payload of provisioning.active.
type ActiveFact struct {
	Allocation string      `json:"allocation_id"`
	Slots      int         `json:"slots"`
	ActiveAt   time.Time   `json:"active_at"`
	PriceMinor money.Minor `json:"price_per_hour_minor"` // of all its GPUs
	Currency   string      `json:"currency"`
}

// FailedFact is the payload of provisioning.failed.
type FailedFact struct {
	Allocation string `json:"allocation_id"`
	Reason     string `json:"reason"`
	Message    string `json:"message"`
	Attempts   int    `json:"attempts"`
}

// ReleasingFact is the payload of provisioning.releasing.requested, and of
// provisioning.force_release_requested.
type ReleasingFact struct {
	Allocation  string `json:"allocation_id"`
	Reason      string `json:"reason"`
	RequestedBy string `json:"requested_by"`
}

// ReleasedFact is the payload of provisioning.releasing.completed. The cost is
// what the closed interval comes to, billed or about to be.
type ReleasedFact struct {
	Allocation string      `json:"allocation_id"`
	ReleasedAt time.Time   `json:"released_at"`
	Seconds    int64       `json:"seconds"`
	CostMinor  money.Minor `json:"cost_minor"`
	Currency   string      `json:"currency"`
}

// ReleaseFailedFact is the payload of provisioning.release_failed.
type ReleaseFailedFact struct {
	Allocation string `json:"allocation_id"`
	Reason     string `json:"release_failed_reason"`
	Attempts   int    `json:"attempts"`
	Slots      int    `json:"slots"`
}

func (s *Service) requested(a Allocation, by identity.Caller) event.Fact {
	return s.fact(a, SubjectRequested, RequestedFact{Allocation: a.ID.String(), SKU: a.SKU, GPUs: a.GPUs, Region: a.Region, RequestedBy: by.Actor(), Queued: !a.placed()})
}

// fact is stated with the version of the row it is about, so that a consumer can
// drop what comes late.
func (s *Service) fact(a Allocation, subject string, payload any) event.Fact {
	return event.Fact{
		Stream: event.StreamProvisioning, Subject: subject, Aggregate: "allocation:" + a.ID.String(), Sequence: a.Version,
		Tenant: a.Tenant, Project: a.Project, URN: a.URN(s.Naming),
		CorrelationID: a.CorrelationID, Trace: a.Trace, Payload: payload,
	}
}
