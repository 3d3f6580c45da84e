package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/revocation"
)

// APIKey is a person's key for programs. Without scopes it may do all that its
// owner may.
type APIKey struct {
	ID                    ids.APIKey
	Name                  string
	Scopes                []string
	CreatedAt             time.Time
	ExpiresAt, LastUsedAt *time.Time
	Secret                string // only when it was just made
}

// NewAPIKey contains the properties of a new API key. A TTL of zero means no expiry.
type NewAPIKey struct {
	Name   string
	Scopes []string
	TTL    time.Duration
}

func scanAPIKey(row pgx.CollectableRow) (k APIKey, err error) {
	err = row.Scan(&k.ID, &k.Name, &k.Scopes, &k.CreatedAt, &k.ExpiresAt, &k.LastUsedAt)
	return k, err
}

func apiKey(c identity.Caller, id ids.APIKey) identity.Resource {
	return identity.Resource{Tenant: c.Tenant, Kind: "api-key", ID: id.String()}
}

// APIKeys lists by id the caller's keys that were not revoked.
func (s *Service) APIKeys(ctx context.Context, c identity.Caller, after ids.APIKey, limit int) ([]APIKey, error) {
	return pg.List(ctx, s.DB, "API keys", selectAPIKeys, scanAPIKey, c.User, after, limit)
}

// CreateAPIKey creates an API key of the caller. The key is displayed once.
func (s *Service) CreateAPIKey(ctx context.Context, ch identity.Change[APIKey], n NewAPIKey) (APIKey, error) {
	k, err := draftAPIKey(ch.Caller, n)
	if err == nil {
		err = s.Recent(ch.Caller)
	}
	if err != nil {
		return APIKey{}, err
	}
	return ch.Apply(ctx, s.Service, func() (APIKey, func(*pgx.Batch), error) {
		k.ID, k.CreatedAt = ids.New[ids.APIKey](), s.Now()
		if k.ExpiresAt, err = until(k.CreatedAt, n.TTL); err == nil {
			k.ExpiresAt, err = ch.Caller.Within(k.ExpiresAt)
		}
		var hash [32]byte
		k.Secret, hash = identity.NewToken(identity.KeyPrefix)
		return k, func(b *pgx.Batch) {
			identity.QueueLockUser(b, ch.Caller.User)
			b.Queue(insertAPIKey, k.ID, ch.Caller.User, k.Name, hash[:], k.Scopes, k.CreatedAt, k.ExpiresAt, ch.Caller.SignIn.Methods, maker(ch.Caller)).Exec(pg.OrElse(
				errs.New(errs.AlreadyExists, "you have a key of this name").At("name").Try("choose another name, or revoke that key first")))
			s.Note(b, ch.Caller, "api_key.create", apiKey(ch.Caller, k.ID), nil,
				audit.Fields{"name": k.Name, "scopes": k.Scopes, "expires_at": k.ExpiresAt})
		}, err
	})
}

func draftAPIKey(c identity.Caller, n NewAPIKey) (k APIKey, err error) {
	if c.User == (ids.User{}) {
		return APIKey{}, errs.New(errs.Forbidden, "only users can have API keys").Try("create a credential of a service account")
	}
	if k.Name, err = identity.CheckText("name", n.Name, 1, identity.MaxName); err != nil {
		return APIKey{}, err
	}
	if k.Scopes, err = checkScopes(c, n.Scopes); err != nil {
		return APIKey{}, err
	}
	if c.Limited && len(k.Scopes) == 0 { // that would be a key without bounds
		return APIKey{}, tooMuch()
	}
	return k, nil
}

// maker is the API key that creates a credential, or nil.
func maker(c identity.Caller) *ids.APIKey {
	if c.Key == (ids.APIKey{}) {
		return nil
	}
	return &c.Key
}

// RevokeAPIKey ends a key of the caller, and what was created with it.
func (s *Service) RevokeAPIKey(ctx context.Context, ch identity.Change[struct{}], id ids.APIKey) error {
	ended := revocation.Ended{}
	_, err := ch.ApplyWith(pg.WithScope(ctx, pg.Platform), s.Service, func() (none struct{}, _ func(*pgx.Batch), _ error) {
		k, err := pg.One(ctx, s.DB, "API key", selectAPIKey, scanAPIKey, ch.Caller.User, id)
		return none, func(b *pgx.Batch) {
			identity.QueueLockUser(b, ch.Caller.User)
			ended.QueueKeys(b, ch.Caller.User, &id)
			s.Note(b, ch.Caller, "api_key.revoke", apiKey(ch.Caller, id), audit.Fields{"name": k.Name, "scopes": k.Scopes}, nil)
		}, err
	}, func(tx pgx.Tx) error {
		if ended.Keys == 0 {
			return identity.ErrRaced
		}
		return ended.Follow(ctx, tx, s.Service.Rekey)
	})
	if err == nil {
		s.RightsChanged()
	}
	return err
}

// NewKey creates an API key. Its text is displayed once and not stored. A TTL of zero means no expiry.
func (s *Service) NewKey(ctx context.Context, q pg.Queryer, user ids.User, name string, ttl time.Duration) (token string, err error) {
	token, hash := identity.NewToken(identity.KeyPrefix)
	if _, err := q.Exec(ctx, insertKey, uuid.Must(uuid.NewV7()), user.UUID, name, hash[:], ttl.Seconds()); err != nil {
		return "", fmt.Errorf("keeping a key: %w", err)
	}
	return token, nil
}

// RevokeKeys ends the user's keys of that name, here at once and in other processes within
// identity.CachedFor.
func (s *Service) RevokeKeys(ctx context.Context, q pg.Queryer, user ids.User, name string) error {
	if _, err := q.Exec(ctx, revokeKeys, user.UUID, name); err != nil {
		return fmt.Errorf("revoking keys: %w", err)
	}
	s.RightsChanged()
	return nil
}
