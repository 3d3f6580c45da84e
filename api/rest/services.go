package rest

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/catalog"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/inventory"
)

// What the handlers ask of each room. The rooms' services satisfy these; tests
// fake them.
type (
	// Tokens says who calls.
	Tokens interface {
		Authenticate(ctx context.Context, token string) (identity.Caller, error)
		InProject(ctx context.Context, c identity.Caller, projectID string) (identity.Caller, error)
		Replay(ctx context.Context, k identity.Key) (r identity.Reply, found bool, err error)
	}
	// Sessions serves the development sign-in.
	Sessions interface {
		People(ctx context.Context) ([]identity.Person, error)
		Session(ctx context.Context, user ids.User, ttl time.Duration) (token string, err error)
		EndSession(ctx context.Context, token string) error
	}
	// SSHKeys keeps public keys.
	SSHKeys interface {
		AddSSHKey(ctx context.Context, ch identity.Change[identity.SSHKey], name, publicKey string) (identity.SSHKey, error)
		SSHKeys(ctx context.Context, c identity.Caller, after ids.SSHKey, limit int) ([]identity.SSHKey, error)
		DeleteSSHKey(ctx context.Context, ch identity.Change[struct{}], id ids.SSHKey) error
	}
	// Identity is all that this door asks of that room.
	Identity interface {
		Tokens
		Sessions
		SSHKeys
		Projects(ctx context.Context, c identity.Caller) ([]identity.Project, error)
	}
	// Catalog says what is sold.
	Catalog interface {
		Get(ctx context.Context, name string) (catalog.SKU, error)
		List(ctx context.Context, after string, limit int) ([]catalog.SKU, error)
	}
	// Allocations promises slots.
	Allocations interface {
		Request(ctx context.Context, r allocation.Request) (allocation.Allocation, error)
		Release(ctx context.Context, c identity.Caller, k identity.Key, id ids.Allocation, answer func(allocation.Allocation) identity.Reply) (allocation.Allocation, error)
		Get(ctx context.Context, c identity.Caller, id ids.Allocation) (allocation.Allocation, error)
		List(ctx context.Context, c identity.Caller, f allocation.Filter) ([]allocation.Allocation, error)
		Timeline(ctx context.Context, c identity.Caller, id ids.Allocation) ([]allocation.Transition, error)
	}
	// Inventory knows the machines.
	Inventory interface {
		Capacity(ctx context.Context) ([]inventory.Capacity, error)
		Nodes(ctx context.Context, after string, limit int) ([]inventory.Node, error)
		Node(ctx context.Context, name string) (inventory.Node, []inventory.Device, error)
	}
	// Metering knows what was used.
	Metering interface {
		Usage(ctx context.Context, tenant ids.Tenant, from, to time.Time, after ids.Allocation, limit int) ([]metering.Usage, error)
		CostOf(ctx context.Context, of []ids.Allocation) (map[ids.Allocation]money.Minor, error)
		Burn(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (money.Minor, error)
	}
	// Ledger knows what is left.
	Ledger interface {
		Balance(ctx context.Context, q pg.Queryer, tenant ids.Tenant) (money.Minor, string, error)
	}
	// Events follows facts. Open refuses before the first byte is written; what
	// it returns writes until the client goes or is too slow.
	Events interface {
		Open(ctx context.Context, tenant ids.Tenant, project ids.Project, after string) (func(http.ResponseWriter) error, error)
	}
	// Desired reads what was declared.
	Desired interface {
		Get(ctx context.Context, kind desired.Kind, scope, name string) (desired.Object, error)
		List(ctx context.Context, kind desired.Kind, after string, limit int) ([]desired.Object, error)
		Revisions(ctx context.Context, below int64, limit int) ([]desired.Revision, error)
		Pointer(ctx context.Context, source string) (desired.Pointer, error)
	}
	// Plans reads what the loop decided, newest first.
	Plans interface {
		Plans(ctx context.Context, before ids.Plan, limit int) ([]Plan, error)
		Plan(ctx context.Context, id ids.Plan) (Plan, []PlanAction, error)
	}
)

// Plan is one answer of the planner that was not empty.
type Plan struct {
	ID            ids.Plan
	CreatedAt     time.Time
	Status, Hash  string
	Actions, Held int
}

// PlanAction is one step of a plan; Held says why it was held back.
type PlanAction struct {
	Number                   int
	Kind                     string
	Object                   uuid.UUID
	Node                     *ids.Node
	Verb, Event              string
	Fence, Generation, Epoch int64
	Reason, Held             string
}
