package signin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/jwt"
)

// SignedOut is the result of a sign-out.
type SignedOut struct {
	// IDToken is that of the session, with which a browser also signs out at the provider.
	IDToken string
	// Pending is the reason why the provider was not notified. RevokeEnded tries again.
	Pending error
}

// Later reports that the provider is notified later.
func (o SignedOut) Later() bool { return o.Pending != nil }

// Logout revokes the token: a session together with the provider's refresh token, or a signed token
// until its expiry. It also revokes the refresh token that a client program sends. The installation does not have
// that token, so that only the program can repeat a revocation that failed: the code is provider_failed.
func (s *Service) Logout(ctx context.Context, c identity.Caller, token, refresh string) (out SignedOut, err error) {
	ctx = unscoped(ctx)
	switch {
	case strings.HasPrefix(token, identity.SessionPrefix):
		out, err = s.leave(ctx, c, token)
	case token != "" && !strings.HasPrefix(token, identity.KeyPrefix):
		err = s.outlaw(ctx, c, token)
	}
	if err != nil || s.Provider == nil || refresh == "" {
		return out, err
	}
	if err := s.Provider.Revoke(ctx, refresh, true); err != nil {
		return out, notNotified(err)
	}
	return out, nil
}

// leave ends a session, and notifies the provider afterwards: our own end does not depend on a provider that is away.
func (s *Service) leave(ctx context.Context, c identity.Caller, token string) (out SignedOut, err error) {
	o, err := s.session(ctx, token)
	if err != nil || o == nil {
		return out, err
	}
	if err := s.end(ctx, o, c); err != nil {
		return out, err
	}
	g, err := s.openGrant(ctx, o.sealed, o.id)
	if err != nil {
		g = HeldTokens{} // sealed with a key that is gone: the token expires by itself
	}
	return SignedOut{IDToken: g.ID, Pending: s.revoke(ctx, o.id, g.Refresh)}, nil
}

// outlaw stores a signed token as revoked until its expiry.
func (s *Service) outlaw(ctx context.Context, c identity.Caller, token string) error {
	p, err := s.prove(ctx, token, sha256.Sum256([]byte(token)))
	if errs.CodeOf(err) == errs.TokenExpired {
		return nil
	}
	if err != nil {
		return err
	}
	hash := revokedAs(token)
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, revokeToken, hash[:], p.until.Add(jwt.Leeway))
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return s.noteNow(ctx, tx, c, "token.revoke", identity.Resource{Tenant: c.Tenant, Kind: "token", ID: fmt.Sprintf("%x", hash[:8])}, nil)
	})
	if err != nil {
		return fmt.Errorf("revoking a token: %w", err)
	}
	s.RightsChanged()
	return nil
}
