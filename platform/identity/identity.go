// Package identity knows who calls and for whom: tenants, projects, people,
// their tokens and SSH keys, and the replies owed to repeated requests. It keeps
// no secret in clear, and it decides no permission: roles are read here, what a
// role may do is policy.
package identity

import (
	"crypto/cipher"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/policies"
)

// Caller is who acts and in which tenant and project: a person or a program.
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
	// Session is what the token belongs to; zero for keys and foreign tokens.
	Session ids.Session

	CorrelationID string
	Trace         string // traceparent
}

// Principal is the id under which the caller owns things: of a row of users or
// of service_accounts.
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

// Service answers from the database, and for a second from memory.
type Service struct {
	DB    pg.Pool
	Clock clock.Clock
	// Seal encrypts what is kept and shows a secret. Every replica needs the same.
	Seal   cipher.AEAD
	Naming ids.Naming
	// Hints, where there are any, tell other processes of lost rights.
	Hints *hint.Bus
	// Provider is who else may sign people in; nil when nobody.
	Provider Provider
	// Tokens are what service accounts are given; nil where none are minted.
	Tokens *Tokens
	// Policy reads the policies for a caller; their defaults when nil.
	Policy func(Caller) policies.View
	// Jobs carry changed SSH keys to allocations; nil where there are none.
	Jobs *river.Client[pgx.Tx]

	tokens   cache[[32]byte, Caller]
	proven   cache[[32]byte, proven]
	projects cache[projectAsked, Project]
	hashing  hashing
}

func (s *Service) policy(c Caller) policies.View {
	if s.Policy == nil {
		return policies.Snapshot{}.For()
	}
	return s.Policy(c)
}
