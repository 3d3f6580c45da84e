package signin

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// SessionInfo is a sign-in of a person that has not ended.
type SessionInfo struct {
	ID                   ids.Session
	User                 ids.User
	Tenant               ids.Tenant // of the user; zero: none
	Kind, Issuer         string
	Address, UserAgent   string
	CreatedAt, ExpiresAt time.Time
	LastUsedAt           *time.Time
	Current              bool // it is the session of the caller
}

func scanSession(row pgx.CollectableRow) (i SessionInfo, err error) {
	var tenant *ids.Tenant
	err = row.Scan(&i.ID, &i.User, &tenant, &i.Kind, &i.Issuer, &i.Address, &i.UserAgent, &i.CreatedAt, &i.ExpiresAt, &i.LastUsedAt)
	if tenant != nil {
		i.Tenant = *tenant
	}
	return i, err
}

// Sessions lists the caller's by id.
func (s *Service) Sessions(ctx context.Context, c identity.Caller, after ids.Session, limit int) ([]SessionInfo, error) {
	if c.User == (ids.User{}) {
		return nil, nil // a program signs in nowhere
	}
	all, err := s.AllSessions(ctx, c.User, after, limit)
	for i := range all {
		all[i].Current = all[i].ID == c.Session
	}
	return all, err
}

// AllSessions lists those of one person, or of everyone, by id, for the platform.
func (s *Service) AllSessions(ctx context.Context, user ids.User, after ids.Session, limit int) ([]SessionInfo, error) {
	if user == (ids.User{}) {
		return pg.List(ctx, s.DB, "sessions", selectAllSessions, scanSession, after, limit)
	}
	return pg.List(ctx, s.DB, "sessions", selectSessions, scanSession, user, after, limit)
}

// EndSessionByID ends a session of the caller, or for the platform that of anyone.
func (s *Service) EndSessionByID(ctx context.Context, ch identity.Change[struct{}], id ids.Session, anyone bool) error {
	_, err := ch.ApplyToRights(ctx, s.Service, func() (none struct{}, _ func(*pgx.Batch), _ error) {
		type owned struct {
			user   ids.User
			tenant *uuid.UUID
		}
		of, err := pg.One(ctx, s.DB, "session", selectSessionOwner, func(row pgx.CollectableRow) (o owned, err error) {
			err = row.Scan(&o.user, &o.tenant)
			return o, err
		}, id)
		if err == nil && !anyone && of.user != ch.Caller.User {
			err = errs.New(errs.NotFound, "no such session")
		}
		about := identity.Resource{Kind: "session", ID: id.String()}
		if of.tenant != nil {
			about.Tenant = ids.From[ids.Tenant](*of.tenant)
		}
		return none, func(b *pgx.Batch) {
			b.Queue(endSession, id).Exec(pg.OrElse(identity.ErrRaced))
			s.Note(b, ch.Caller, "session.end", about, audit.Fields{"user": of.user.String()}, nil)
		}, err
	})
	return err
}
