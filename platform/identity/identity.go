// Package identity knows who calls and for whom: tenants, projects, people,
// their tokens and SSH keys, and the replies owed to repeated requests. It keeps
// no secret in clear, and it decides no permission: roles are read here, what a
// role may do is policy.
package identity

import (
	"context"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Caller is who acts and in which tenant and project.
type Caller struct {
	User        ids.User
	Email, Name string
	Role        string // on the platform: user, admin, operator, billing_operator
	Tenant      ids.Tenant
	TenantName  string
	TenantRole  string // owner, member, viewer, billing
	Project     ids.Project
	ProjectRole string // admin, member, viewer

	CorrelationID string
	Trace         string // traceparent
}

// Actor names the caller in audit rows.
func (c Caller) Actor() string { return "user:" + c.User.String() }

type callerKey struct{}

// WithCaller returns a context that carries c.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerFrom returns the caller of the request; the zero Caller may do nothing.
func CallerFrom(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

// Service answers from the database, and for a few seconds from memory.
type Service struct {
	DB    pg.Pool
	Clock clock.Clock

	tokens   cache[[32]byte, Caller]
	projects cache[projectAsked, Project]
}
