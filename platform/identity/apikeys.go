package identity

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
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

func (c Caller) apiKey(id ids.APIKey) resourceRef {
	return resourceRef{tenant: c.Tenant, kind: "api-key", id: id.String()}
}

// APIKeys lists by id the caller's keys that were not revoked.
func (s *Service) APIKeys(ctx context.Context, c Caller, after ids.APIKey, limit int) ([]APIKey, error) {
	return list(ctx, s.DB, "API keys", selectAPIKeys, scanAPIKey, c.User, after, limit)
}

// CreateAPIKey creates an API key of the caller. The key is displayed once.
func (s *Service) CreateAPIKey(ctx context.Context, ch Change[APIKey], n NewAPIKey) (APIKey, error) {
	k, err := draftAPIKey(ch.Caller, n)
	if err != nil {
		return APIKey{}, err
	}
	return change(ctx, s, ch, func() (APIKey, func(*pgx.Batch), error) {
		k.ID, k.CreatedAt = ids.New[ids.APIKey](), s.now()
		k.ExpiresAt, err = until(k.CreatedAt, n.TTL)
		var hash [32]byte
		k.Secret, hash = newToken(keyPrefix)
		return k, func(b *pgx.Batch) {
			b.Queue(lockUser, ch.Caller.User).Exec(held("user"))
			b.Queue(insertAPIKey, k.ID, ch.Caller.User, k.Name, hash[:], k.Scopes, k.CreatedAt, k.ExpiresAt).Exec(orElse(
				errs.New(errs.AlreadyExists, "you have a key of this name").At("name").Try("choose another name, or revoke that key first")))
			s.note(b, ch.Caller, "api_key.create", ch.Caller.apiKey(k.ID), nil,
				fields{"name": k.Name, "scopes": k.Scopes, "expires_at": k.ExpiresAt})
		}, err
	})
}

func draftAPIKey(c Caller, n NewAPIKey) (k APIKey, err error) {
	if c.User == (ids.User{}) {
		return APIKey{}, errs.New(errs.Forbidden, "only users can have API keys").Try("create a credential of a service account")
	}
	if k.Name, err = validText("name", n.Name, 1, maxName); err != nil {
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

// RevokeAPIKey ends a key of the caller.
func (s *Service) RevokeAPIKey(ctx context.Context, ch Change[struct{}], id ids.APIKey) error {
	made, err := change(ctx, s, ch, func() (none struct{}, _ func(*pgx.Batch), _ error) {
		k, err := queryOne(ctx, s.DB, "API key", selectAPIKey, scanAPIKey, ch.Caller.User, id)
		return none, func(b *pgx.Batch) {
			b.Queue(revokeAPIKey, ch.Caller.User, id).Exec(orElse(errRaced))
			s.note(b, ch.Caller, "api_key.revoke", ch.Caller.apiKey(id), fields{"name": k.Name, "scopes": k.Scopes}, nil)
		}, err
	})
	_, err = done(s, made, err)
	return err
}
