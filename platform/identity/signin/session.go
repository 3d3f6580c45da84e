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
		s.sealGrant(n.Grant, info.ID), hours*int64(time.Hour/time.Second), timeOrNil(n.SignIn.At), n.SignIn.Methods, n.Grant.Refresh != "").Scan(&info.CreatedAt, &info.ExpiresAt)
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

// ForgetRevoked deletes tokens that were revoked and have expired since, at most limit of them.
func ForgetRevoked(ctx context.Context, q pg.Queryer, _ time.Duration, limit int) (int64, error) {
	tag, err := q.Exec(ctx, deleteRevoked, limit)
	if err != nil {
		return 0, fmt.Errorf("forgetting revoked tokens: %w", err)
	}
	return tag.RowsAffected(), nil
}

// DeleteEndedSessions deletes sessions that ended before an age, at most limit of them. Secrets of all ages must be unique
// together, so the table has no partitions.
func DeleteEndedSessions(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	tag, err := q.Exec(ctx, deleteSessions, age, limit)
	if err != nil {
		return 0, fmt.Errorf("deleting ended sessions: %w", err)
	}
	return tag.RowsAffected(), nil
}

// DeleteExpiredLinks deletes sign-in links that expired before an age, at most limit of them.
func DeleteExpiredLinks(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	tag, err := q.Exec(ctx, deleteLinks, age, limit)
	if err != nil {
		return 0, fmt.Errorf("deleting expired sign-in links: %w", err)
	}
	return tag.RowsAffected(), nil
}
