// Package identity owns tenants, projects, users, service accounts, their tokens and SSH keys, and the
// stored responses of idempotency keys. It authenticates callers. It stores no secret in clear text and
// makes no authorisation decision: it reads roles, and package policies defines the operations of a
// role.
package identity

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/cache"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/policies"
)

// Caller is the sender of a request, a user or a service account, with the tenant and project it acts
// in.
type Caller struct {
	User           ids.User           // zero for a program
	ServiceAccount ids.ServiceAccount // zero for a person
	Email, Name    string
	Role           string // on the platform: user, admin, operator, billing_operator; empty for a program
	Tenant         ids.Tenant
	TenantName     string
	TenantRole     string // owner, member, viewer, billing
	Project        ids.Project
	ProjectRole    string // admin, member, viewer

	// Scopes bound what the token may do, when Limited; a program's token always is.
	Scopes  policies.Scopes
	Limited bool
	// Session is the session of the token. It is zero for API keys and for tokens of other issuers.
	Session ids.Session
	SignIn  SignIn
	// Key is the API key of the caller, and Credential the credential of a service account that its token
	// was minted for. Both are zero for other tokens.
	Key        ids.APIKey
	Credential ids.Credential
	// KeyEnd is the end of the key or of the credential, and that of its token for a CI job. It is zero
	// for what has no end.
	KeyEnd time.Time

	CorrelationID string
	Trace         string // traceparent
	// Client sent the request. It is zero for callers that a job acts for.
	Client audit.Client
}

// Principal returns the id that owns the caller's objects: a row of users or of service_accounts.
func (c Caller) Principal() uuid.UUID {
	if c.ServiceAccount != (ids.ServiceAccount{}) {
		return c.ServiceAccount.UUID
	}
	return c.User.UUID
}

// Actor names the caller in audit rows.
func (c Caller) Actor() string {
	if c.ServiceAccount != (ids.ServiceAccount{}) {
		return "service-account:" + c.ServiceAccount.String()
	}
	return "user:" + c.User.String()
}

// Cause returns the cause of the caller's changes, for audit rows.
func (c Caller) Cause() audit.By {
	return audit.By{Actor: c.Actor(), CorrelationID: c.CorrelationID, Client: c.Client}
}

// Service answers from the database, and for a second from memory.
type Service struct {
	DB    pg.Pool
	Clock clock.Clock
	// Seal encrypts stored secrets. It is nil in a role without the keys, which stores none.
	Seal   Sealer
	Naming ids.Naming
	// Hints notifies other processes of lost rights. It may be nil.
	Hints *hint.Bus
	// Rekey makes the allocations of a principal follow a change of its rights. It may be nil.
	Rekey func(ctx context.Context, tx pgx.Tx, principal uuid.UUID) error
	// Policy reads the policies for a caller; their defaults when nil.
	Policy func(Caller) policies.View

	rights   atomic.Int64 // increases when a caller may have lost a right
	projects cache.Cache[projectRequest, Project]
	roleIn   cache.Cache[tenantUser, map[ids.Project]bool]
}

// PolicyFor reads the policies for a caller.
func (s *Service) PolicyFor(c Caller) policies.View {
	if s.Policy == nil {
		return policies.Snapshot{}.For()
	}
	return s.Policy(c)
}
