package fleet

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/platform/secret"
)

// ObservedNode is the state of a node in the other services. A nil field means that there is none.
type ObservedNode struct {
	Object       *desired.Object
	ReportedAt   *time.Time
	Agent        string // version that runs
	Tasks        []nodetask.TaskSummary
	Certificates []secret.Certificate
}

// personOf returns the user that an actor of audit rows names.
func personOf(actor string) (id uuid.UUID, ok bool) {
	text, is := strings.CutPrefix(actor, "user:")
	if !is {
		return id, false
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}
