package signin

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Provider is the foreign issuer that signs people in.
type Provider interface {
	// Issuer is the name that its tokens carry.
	Issuer() string
	// Keys is another text whenever its keys have changed.
	Keys(ctx context.Context) (string, error)
	// Verify validates an access token, or rejects it.
	Verify(ctx context.Context, token string) (Verified, error)
	// Refresh exchanges a refresh token for new tokens. program means that the token was issued to a
	// client program.
	Refresh(ctx context.Context, refresh string, program bool) (Grant, error)
	// EndSessionURL returns where a browser ends its session at the provider, and returns to back. It is empty
	// if the provider offers none.
	EndSessionURL(ctx context.Context, idToken, back string) (string, error)
	// Revoke ends a refresh token.
	Revoke(ctx context.Context, refresh string, program bool) error
}

// Verified is the identity that an issuer has asserted.
type Verified struct {
	Issuer, Subject string
	Email           string // lower case
	EmailVerified   bool
	Name            string
	// Role is the provider's, by the profile's table; it rules where MapsRoles.
	Role      string
	MapsRoles bool
	// SignIn is the last time that the user has proven the identity to the issuer.
	SignIn identity.SignIn
	Until  time.Time
}

// Grant is the result of a code exchange or a refresh.
type Grant struct {
	Verified            Verified
	Access, Refresh, ID string
	Until               time.Time // of the access token
}

// Origin describes the client of a sign-in, so that the user can recognise the session.
type Origin struct {
	Address, UserAgent string
	CorrelationID      string
}

// caller is the user who signs in with the client.
func (o Origin) caller(u ids.User) identity.Caller {
	return identity.Caller{User: u, CorrelationID: o.CorrelationID, Client: audit.Client{Address: o.Address, UserAgent: o.UserAgent}}
}

// NewSession is a session that is to be started.
type NewSession struct {
	User   ids.User
	Kind   string // browser, program
	Issuer string // issuer of the identity: the provider, or local
	Grant  HeldTokens
	Origin Origin
	SignIn identity.SignIn
}

// Started is a session and its one and only showing of the token.
type Started struct {
	User    identity.User
	Token   string
	Session SessionInfo
}
