package signin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/jwt"
	"github.com/gpuaas/gpuaas/policies"
)

// enter starts a session of a person of our own records.
func (s *Service) enter(ctx context.Context, tx pgx.Tx, u identity.User, n NewSession) (Started, error) {
	if u.DisabledAt != nil {
		return Started{}, disabled()
	}
	if _, err := tx.Exec(ctx, noteSignIn, u.ID); err != nil {
		return Started{}, fmt.Errorf("noting a sign-in: %w", err)
	}
	return s.begin(ctx, tx, arrival{user: u}, n)
}

// maxUserAgent is enough for a user to recognise a browser.
const maxUserAgent = 256

// begin writes the session with the one audit row of the sign-in.
func (s *Service) begin(ctx context.Context, tx pgx.Tx, a arrival, n NewSession) (Started, error) {
	if err := s.Strong(a.user.Role, n.SignIn); err != nil {
		return Started{}, err
	}
	token, hash := identity.NewToken(identity.SessionPrefix)
	info := SessionInfo{
		ID: ids.New[ids.Session](), User: a.user.ID, Kind: n.Kind, Issuer: n.Issuer, Address: n.Origin.Address,
		UserAgent: strings.ToValidUTF8(n.Origin.UserAgent[:min(len(n.Origin.UserAgent), maxUserAgent)], ""),
	}
	hours := s.PolicyFor(identity.Caller{User: a.user.ID, Tenant: a.user.Tenant}).Int(policies.AuthSessionMaxHours)
	err := tx.QueryRow(ctx, insertSession, info.ID, info.User, hash[:], info.Kind, info.Issuer, info.Address, info.UserAgent,
		s.sealRefresh(n.Refresh, info.ID), hours*int64(time.Hour/time.Second), timeOrNil(n.SignIn.At), n.SignIn.Methods).Scan(&info.CreatedAt, &info.ExpiresAt)
	if err != nil {
		return Started{}, fmt.Errorf("starting a session: %w", err)
	}
	after := audit.Fields{"session": info.ID.String(), "kind": info.Kind, "issuer": info.Issuer}
	maps.Copy(after, a.changed)
	return Started{a.user, token, info}, s.noteNow(ctx, tx, a.caller(n.Origin), "session.start", a.user.Ref(), after)
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// sealRefresh encrypts a refresh token for storage. Without a key it is not stored, and the sign-out
// then ends only the local session.
func (s *Service) sealRefresh(refresh string, id ids.Session) []byte {
	if refresh == "" || s.Seal == nil {
		return nil
	}
	return s.Seal.Seal([]byte(refresh), identity.RefreshAt(id))
}

// ownSession is the stored part of a session that has not ended.
type ownSession struct {
	id     ids.Session
	user   ids.User
	tenant ids.Tenant
	sealed []byte
}

// session finds the session of a token; nil when there is none any more.
func (s *Service) session(ctx context.Context, token string) (*ownSession, error) {
	hash := sha256.Sum256([]byte(token))
	var o ownSession
	var tenant *uuid.UUID
	err := s.DB.QueryRow(ctx, selectSession, hash[:]).Scan(&o.id, &o.user, &tenant, &o.sealed)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil //nolint:nilnil // an unknown one is ended already
	case err != nil:
		return nil, fmt.Errorf("looking up a session: %w", err)
	}
	if tenant != nil {
		o.tenant = ids.From[ids.Tenant](*tenant)
	}
	return &o, nil
}

func (s *Service) refreshOf(ctx context.Context, o *ownSession) (string, error) {
	if o.sealed == nil || s.Seal == nil {
		return "", nil
	}
	refresh, err := s.Seal.Open(ctx, o.sealed, identity.RefreshAt(o.id))
	return string(refresh), err
}

func (s *Service) end(ctx context.Context, o *ownSession, by identity.Caller) error {
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, endSession, o.id)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		return s.noteNow(ctx, tx, by, "session.end", identity.Resource{Tenant: o.tenant, Kind: "session", ID: o.id.String()}, audit.Fields{"user": o.user.String()})
	})
	if err != nil {
		return fmt.Errorf("ending a session: %w", err)
	}
	s.RightsChanged()
	return nil
}

// Logout revokes the token: a session together with the provider's refresh token, or a signed token
// until its expiry. It also revokes the refresh token that a client program sends.
func (s *Service) Logout(ctx context.Context, c identity.Caller, token, refresh string) error {
	ctx = unscoped(ctx)
	var err error
	held := ""
	switch {
	case strings.HasPrefix(token, identity.SessionPrefix):
		held, err = s.leave(ctx, c, token)
	case token != "" && !strings.HasPrefix(token, identity.KeyPrefix):
		err = s.outlaw(ctx, c, token)
	}
	if err != nil || s.Provider == nil {
		return err
	}
	// After our own end, which does not depend on a provider that is away.
	if held != "" {
		err = s.Provider.Revoke(ctx, held, false)
	}
	if refresh != "" {
		err = errors.Join(err, s.Provider.Revoke(ctx, refresh, true))
	}
	if err != nil {
		return errs.New(errs.ProviderFailed, "you are signed out; the identity provider could not be notified").Because(err)
	}
	return nil
}

func (s *Service) leave(ctx context.Context, c identity.Caller, token string) (refresh string, err error) {
	o, err := s.session(ctx, token)
	if err != nil || o == nil {
		return "", err
	}
	if refresh, err = s.refreshOf(ctx, o); err != nil {
		refresh = "" // sealed with a key that is gone: the provider ends it by itself
	}
	return refresh, s.end(ctx, o, c)
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

// RefreshSession renews the session's identity at the provider and applies the provider's role. A
// rejection by the provider ends the session.
func (s *Service) RefreshSession(ctx context.Context, token string, o Origin) (identity.User, error) {
	ctx = unscoped(ctx)
	own, err := s.session(ctx, token)
	if err != nil {
		return identity.User{}, err
	}
	if own == nil {
		return identity.User{}, tokenInvalid()
	}
	refresh, err := s.refreshOf(ctx, own)
	if err != nil {
		return identity.User{}, fmt.Errorf("opening a refresh token: %w", err)
	}
	if refresh == "" || s.Provider == nil { // no provider can confirm this user
		return s.UserByID(ctx, own.user)
	}
	g, err := s.Provider.Refresh(ctx, refresh, false)
	if errs.CodeOf(err) == errs.TokenInvalid {
		return s.endRejected(ctx, token, own, err)
	}
	if err != nil {
		return identity.User{}, err
	}
	return s.renew(ctx, own, g, o)
}

// endRejected ends a session whose refresh token the provider has rejected, unless a concurrent request
// has just exchanged it for a new one.
func (s *Service) endRejected(ctx context.Context, token string, own *ownSession, refused error) (identity.User, error) {
	again, err := s.session(ctx, token)
	switch {
	case err != nil:
		return identity.User{}, err
	case again != nil && string(again.sealed) != string(own.sealed):
		return s.UserByID(ctx, own.user)
	case again != nil:
		if err := s.end(ctx, own, identity.Caller{User: own.user}); err != nil {
			return identity.User{}, err
		}
	}
	return identity.User{}, refused
}

func (s *Service) renew(ctx context.Context, own *ownSession, g Grant, o Origin) (identity.User, error) {
	var a arrival
	err := s.signing(ctx, func(tx pgx.Tx) (err error) {
		if a, err = s.arrive(ctx, tx, g.Verified); err != nil {
			return err
		}
		if a.user.ID != own.user {
			return loginFailed("the identity provider now reports another user")
		}
		if g.Refresh != "" {
			if _, err := tx.Exec(ctx, keepRefresh, own.id, s.sealRefresh(g.Refresh, own.id)); err != nil {
				return fmt.Errorf("keeping a refresh token: %w", err)
			}
		}
		return s.noteNow(ctx, tx, a.caller(o), "session.refresh", identity.Resource{Tenant: a.user.Tenant, Kind: "session", ID: own.id.String()}, a.changed)
	})
	return s.arrived(a, err)
}

// RefreshProgram forwards a program's refresh token to the provider.
func (s *Service) RefreshProgram(ctx context.Context, refresh string, o Origin) (Grant, identity.User, error) {
	if s.Provider == nil {
		return Grant{}, identity.User{}, errs.New(errs.NotFound, "no sign-in provider is set")
	}
	g, err := s.Provider.Refresh(ctx, refresh, true)
	if err != nil {
		return Grant{}, identity.User{}, err
	}
	u, err := s.SignInUser(ctx, g.Verified, o)
	return g, u, err
}

// ForgetRevoked removes what was revoked and is past its end anyway, at most
// limit of them.
func ForgetRevoked(ctx context.Context, q pg.Queryer, limit int) (int64, error) {
	tag, err := q.Exec(ctx, deleteRevoked, limit)
	if err != nil {
		return 0, fmt.Errorf("forgetting revoked tokens: %w", err)
	}
	return tag.RowsAffected(), nil
}
