// Package terminal stores the tokens that open terminals and SSH connections to allocations, the sessions, and the servers
// that own them. It decides whether a session may begin and go on: one statement reads the rights of all sessions of a
// server. It transports no bytes; api/terminal does.
package terminal

import (
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Purpose distinguishes what a token opens.
type Purpose string

// Shell is a terminal, for which the server is the SSH client. SSH is a connection of the client's own SSH client.
const (
	Shell Purpose = "shell"
	SSH   Purpose = "ssh"
)

// Reason is the reason of an end. The contract describes each.
type Reason string

// The reasons of ends.
const (
	Exited          Reason = "exited"
	Closed          Reason = "closed"
	Disconnected    Reason = "disconnected"
	Slow            Reason = "slow"
	Idle            Reason = "idle"
	EndedByUser     Reason = "ended_by_user"
	EndedByOperator Reason = "ended_by_operator"
	SignedOut       Reason = "signed_out"
	UserDisabled    Reason = "user_disabled"
	RightLost       Reason = "right_lost"
	AllocationEnded Reason = "allocation_ended"
	NodeUnavailable Reason = "node_unavailable"
	ConnectFailed   Reason = "connect_failed"
	StreamLost      Reason = "stream_lost"
	Restarted       Reason = "restarted"
	Lost            Reason = "lost"
	Unavailable     Reason = "unavailable"

	RecordingFailed   Reason = "recording_failed"
	RecordingFull     Reason = "recording_full"
	RecordingRequired Reason = "recording_required"
)

const (
	// Prefix begins each token.
	Prefix = "gpt_"
	// Topic is the hint after a request to end a session.
	Topic = "terminal"

	maxTokens    = 64   // unused tokens of one user
	maxPerUser   = 32   // open sessions of one user
	maxPerMinute = 60   // opened sessions of one user
	maxInstance  = 1000 // open sessions of one server
)

// Limits are values of policies.
type Limits struct {
	TokenLife     time.Duration
	Idle          time.Duration
	PerAllocation int
	Recording     Recording
	RecordingMax  int64 // bytes of output
	// Forwarding is true if SSH connections may forward ports.
	Forwarding bool
}

// Service is used by the role api for tokens and lists, and by the role terminal for sessions.
type Service struct {
	DB       pg.Pool
	Identity *identity.Service
	Hints    *hint.Bus
	Naming   ids.Naming
	Clock    clock.Clock
	Limits   func(tenant ids.Tenant, project ids.Project) Limits
	// May reports whether the roles or scopes of a caller allow terminals, by the table that decides about requests.
	May func(identity.Caller) bool
	// Address returns that of the websockets, such as wss://gpuaas.example. Only the role api needs it.
	Address func() string
	// MaxPerInstance limits the open sessions of a server; zero means 1000.
	MaxPerInstance int
}

// Holder describes the caller who opens a session, and the right. Scopes of a caller that is Limited bound its roles.
type Holder struct {
	Tenant        ids.Tenant
	Project       ids.Project
	Principal     uuid.UUID
	Program       bool
	SignIn        uuid.UUID // session, API key or credential
	SignInEnd     *time.Time
	Scopes        []string
	Limited       bool
	CorrelationID string
}

func (h Holder) actor() string {
	if h.Program {
		return "service-account:" + h.Principal.String()
	}
	return "user:" + h.Principal.String()
}

// by is the cause of what the holder does.
func (h Holder) by(client audit.Client) audit.By {
	return audit.By{Actor: h.actor(), CorrelationID: h.CorrelationID, Client: client}
}

func holderOf(c identity.Caller) (Holder, error) {
	h := Holder{
		Tenant: c.Tenant, Project: c.Project, Principal: c.Principal(), Program: c.ServiceAccount != (ids.ServiceAccount{}),
		Scopes: c.Scopes.Names(), Limited: c.Limited, CorrelationID: c.CorrelationID,
	}
	switch {
	case c.Credential != (ids.Credential{}):
		h.SignIn = c.Credential.UUID
	case c.Key != (ids.APIKey{}):
		h.SignIn = c.Key.UUID
	case c.Session != (ids.Session{}):
		h.SignIn = c.Session.UUID
	default: // the access token of another issuer: nothing here shows its end
		return h, errs.New(errs.Forbidden, "this token has no session on the server").Try("sign in, or use an API key")
	}
	if !c.KeyEnd.IsZero() {
		h.SignInEnd = &c.KeyEnd
	}
	return h, nil
}

// Session is one row of terminal_sessions.
type Session struct {
	ID uuid.UUID
	Holder

	Allocation ids.Allocation
	Node       ids.Node
	Fence      int64
	Instance   uuid.UUID
	Purpose    Purpose
	Client     audit.Client
	Connected  bool
	Received   int64
	Sent       int64
	HostKey    string
	EndReason  Reason
	ExitStatus *int
	CreatedAt  time.Time
	UpdatedAt  time.Time
	EndedAt    *time.Time
}

// URN names the session in audit rows.
func (s Session) URN(n ids.Naming) string {
	return n.Name(s.Tenant.String(), s.Project.String(), "terminal-session", s.ID.String()).String()
}
