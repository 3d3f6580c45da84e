package accesskey

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/delegation"
	"github.com/gpuaas/gpuaas/policies"
)

// Use is a key with its secret, and its creator with the rights that they have now in the project of the key.
type Use struct {
	Key

	Caller           identity.Caller
	ProjectName      string
	ProjectCreatedAt time.Time
}

// Find returns the key of an access key id. The result is at most identity.CachedFor old; a revocation in this process has no
// delay. A key that does not exist, or that has ended, is not found. Where its creator has lost the right to act in the
// project, the error is forbidden.
func (s *Service) Find(ctx context.Context, accessKeyID string) (Use, error) {
	epoch, now := s.Identity.RightsEpoch(), s.Clock.Now()
	if u, found := s.uses.Get(accessKeyID, epoch, now); found {
		return u, nil
	}
	if len(accessKeyID) != idLength {
		return Use{}, errs.New(errs.NotFound, "there is no such access key")
	}
	u, err := s.find(pg.WithScope(ctx, pg.Platform), accessKeyID)
	if err != nil {
		return Use{}, err
	}
	until := now.Add(identity.CachedFor)
	if u.ExpiresAt != nil && u.ExpiresAt.Before(until) {
		until = *u.ExpiresAt
	}
	s.uses.Put(accessKeyID, u, epoch, until)
	return u, nil
}

func (s *Service) find(ctx context.Context, accessKeyID string) (u Use, err error) {
	if u.Key, err = pg.One(ctx, s.DB, "storage key", selectUse, scanKey, accessKeyID); err != nil {
		return u, err
	}
	if u.Secret, err = s.open(ctx, u.Key); err != nil {
		return u, err
	}
	if u.Caller, err = s.present(ctx, u.Key); err != nil {
		return u, err
	}
	p, err := s.project(ctx, u.Caller)
	if err != nil {
		return u, err
	}
	u.ProjectName, u.ProjectCreatedAt = p.Name, p.CreatedAt
	if u.stale { // it may be lost: nothing is decided by it
		_, _ = s.DB.Exec(ctx, touchKey, u.ID)
	}
	return u, nil
}

// creator is the caller who created a key, as the row stores it. Scopes have their names, because their bits differ between
// releases.
type creator struct {
	User           ids.User           `json:"user,omitzero"`
	ServiceAccount ids.ServiceAccount `json:"service_account,omitzero"`
	APIKey         ids.APIKey         `json:"api_key,omitzero"`
	Credential     ids.Credential     `json:"credential,omitzero"`
	Scopes         []string           `json:"scopes,omitempty"`
	Limited        bool               `json:"limited,omitempty"`
}

func creatorOf(c identity.Caller) creator {
	return creator{c.User, c.ServiceAccount, c.Key, c.Credential, c.Scopes.Names(), c.Limited}
}

// present returns the creator of a key with the rights that they have now.
func (s *Service) present(ctx context.Context, k Key) (identity.Caller, error) {
	c := k.creator
	scopes, err := policies.ParseScopes(c.Scopes)
	if err != nil {
		return identity.Caller{}, fmt.Errorf("reading the scopes of a storage key: %w", err)
	}
	return delegation.Present(ctx, s.Identity, delegation.Reference{
		User: c.User, ServiceAccount: c.ServiceAccount, Tenant: k.Tenant, Project: k.Project, Key: c.APIKey, Credential: c.Credential, Scopes: scopes, Limited: c.Limited,
	})
}

// project returns the project of a key.
func (s *Service) project(ctx context.Context, c identity.Caller) (identity.Project, error) {
	all, err := s.Identity.Projects(pg.WithScope(ctx, pg.Scope{Tenant: c.Tenant.String(), Principal: c.Principal().String()}), c)
	if err != nil {
		return identity.Project{}, err
	}
	for _, p := range all {
		if p.ID == c.Project {
			return p, nil
		}
	}
	return identity.Project{}, errs.New(errs.NotFound, "the project of the access key does not exist")
}

type sealedSecret struct {
	ID     uuid.UUID
	Secret []byte
}

// Reseal seals the secrets of older data keys with the newest one, in transactions of at most limit rows, and returns their
// number. A secret that does not open stays as it is and is recorded.
func (s *Service) Reseal(ctx context.Context, id string, limit int) (n int, err error) {
	return s.reseal(ctx, s.Seal, false, id, limit)
}

// reseal seals the secrets of mounts, or all others.
func (s *Service) reseal(ctx context.Context, seal identity.Sealer, mounts bool, id string, limit int) (n int, err error) {
	ctx = pg.WithScope(ctx, pg.Platform)
	for after, done := uuid.Nil, false; !done && err == nil; {
		err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
			rows, err := pg.List(ctx, tx, "secrets of storage keys", selectOldSecrets, pgx.RowToStructByPos[sealedSecret], envelope.Header(id), after, limit, mounts)
			if err != nil {
				return err
			}
			done = len(rows) < limit
			b := &pgx.Batch{}
			for _, r := range rows {
				after = r.ID
				if secret, err := seal.Open(ctx, r.Secret, secretAt(r.ID)); err == nil {
					b.Queue(resealSecret, r.ID, seal.Seal(secret, secretAt(r.ID)))
					n++
				}
			}
			return tx.SendBatch(ctx, b).Close()
		})
	}
	if err != nil {
		return n, fmt.Errorf("sealing the secrets of storage keys again: %w", err)
	}
	return n, nil
}

// SealedBefore counts the access keys, of mounts or all others, whose secret another data key than id has sealed.
func SealedBefore(ctx context.Context, q pg.Queryer, id string, mounts bool) (n int, err error) {
	if err = q.QueryRow(ctx, countOldSecrets, envelope.Header(id), mounts).Scan(&n); err != nil {
		return 0, fmt.Errorf("counting the secrets of storage keys: %w", err)
	}
	return n, nil
}
