package revocation

import (
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
)

// SubjectAccessLost is the subject of the loss of a membership, of a role of the platform, or of an account.
const SubjectAccessLost = "provisioning.access_lost"

// The reasons of a loss.
const (
	MembershipRemoved = "membership_removed"
	RoleRemoved       = "role_removed"
	AccountDisabled   = "account_disabled"
)

// AccessLost is the payload of provisioning.access_lost.
type AccessLost struct {
	Scope  string `json:"scope"` // project, tenant or platform
	Reason string `json:"reason"`
	Name   string `json:"name,omitempty"` // of the project
}

// QueueAccessLost queues the event. The draft has user, tenant, project, URN and correlation id. An aggregate contains one
// loss, because a user can lose the same access again.
func QueueAccessLost(b *pgx.Batch, d event.Draft, lost AccessLost) {
	d.ID = ids.New[ids.Event]()
	d.Stream, d.Subject, d.Aggregate, d.Sequence, d.Payload = event.StreamProvisioning, SubjectAccessLost, "access:"+d.ID.String(), 1, lost
	event.Queue(b, d)
}
