package identity

import (
	"context"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Provider is the foreign issuer that signs people in.
type Provider interface {
	// Issuer is the name that its tokens carry.
	Issuer() string
	// Keys is another text whenever its keys have changed.
	Keys(ctx context.Context) (string, error)
	// Verify believes an access token, or refuses it.
	Verify(ctx context.Context, token string) (Verified, error)
	// Refresh asks for new tokens; program says that the older was given to one.
	Refresh(ctx context.Context, refresh string, program bool) (Grant, error)
	// Revoke ends a refresh token.
	Revoke(ctx context.Context, refresh string, program bool) error
}

// Verified is what an issuer vouches for.
type Verified struct {
	Issuer, Subject string
	Email           string // lower case
	EmailVerified   bool
	Name            string
	// Role is the provider's, by the profile's table; it rules where MapsRoles.
	Role      string
	MapsRoles bool
	Until     time.Time
}

// Grant is what a provider gives for a code or a refresh token.
type Grant struct {
	Verified            Verified
	Access, Refresh, ID string
	Until               time.Time // of the access token
}

// Origin is where a sign-in comes from, for its owner to recognise.
type Origin struct {
	Address, UserAgent string
	CorrelationID      string
}

// NewSession is a session that is to be started.
type NewSession struct {
	User    ids.User
	Kind    string // browser, program
	Issuer  string // who vouched for the person: the provider, or local
	Refresh string // the provider's refresh token, if there is one
	Origin  Origin
}

// Started is a session and its one and only showing of the token.
type Started struct {
	User    User
	Token   string
	Session SessionInfo
}
