package accesskey

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/envelope/reseal"
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
	if err, known := s.found.Get(accessKeyID, 0, now); known && err != nil {
		return Use{}, err
	}
	u, err := s.find(pg.WithScope(ctx, pg.Platform), accessKeyID)
	if err != nil {
		until := now // a node may extend a key that has ended
		if errs.CodeOf(err) == errs.NotFound && u.ID == uuid.Nil {
			until = now.Add(missingFor)
		}
		s.found.Put(accessKeyID, err, 0, until)
		return Use{}, err
	}
	s.found.Put(accessKeyID, nil, 0, now.Add(foundFor))
	until := now.Add(identity.CachedFor)
	if u.ExpiresAt != nil && u.ExpiresAt.Before(until) {
		until = *u.ExpiresAt
	}
	s.uses.Put(accessKeyID, u, epoch, until)
	return u, nil
}

const (
	// foundFor is the time in which a key that was found counts as one that exists. After it the next request is charged to its
	// address, too.
	foundFor = time.Hour
	// missingFor is the time in which the database is not searched for a missing key again. No client can know the id of a key before
	// the key exists.
	missingFor = time.Minute
)

// FoundLately reports whether Find has found the key in the last hour, and not missed it since. It reads no database.
func (s *Service) FoundLately(accessKeyID string) bool {
	err, known := s.found.Get(accessKeyID, 0, s.Clock.Now())
	return known && err == nil
}

func (s *Service) find(ctx context.Context, accessKeyID string) (u Use, err error) {
	if u.Key, err = pg.One(ctx, s.DB, "storage key", selectUse, scanKey, accessKeyID); err != nil {
		return u, err
	}
	if u.ended {
		return u, errs.New(errs.NotFound, "the access key has ended")
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

// The secrets of S3 tools and those of mounts have data keys of their own.
var (
	secrets      = newSecrets("the secrets of storage keys", selectOldSecrets, countOldSecrets)
	mountSecrets = newSecrets("the secrets of mounts", selectOldMounts, countOldMounts)
)

func newSecrets(what, list, count string) reseal.Secrets {
	return reseal.Secrets{
		What: what, List: list, Replace: resealSecret, Count: count,
		Places: func(id uuid.UUID) []envelope.Place { return []envelope.Place{secretAt(id)} },
	}
}

// Reseal seals the secrets of older data keys with the key id, in transactions of at most limit rows, and returns their number.
func (s *Service) Reseal(ctx context.Context, id string, limit int) (int, error) {
	return secrets.Again(pg.WithScope(ctx, pg.Platform), s.DB, s.Seal, id, limit)
}

// SealedBefore counts the access keys whose secret another data key than id has sealed.
func SealedBefore(ctx context.Context, q pg.Queryer, id string) (int, error) {
	return secrets.Before(ctx, q, id)
}

// ResealMounts is Reseal for the keys of mounts.
func (s *Service) ResealMounts(ctx context.Context, id string, limit int) (int, error) {
	return mountSecrets.Again(pg.WithScope(ctx, pg.Platform), s.DB, s.MountSeal, id, limit)
}

// MountsSealedBefore is SealedBefore for the keys of mounts.
func MountsSealedBefore(ctx context.Context, q pg.Queryer, id string) (int, error) {
	return mountSecrets.Before(ctx, q, id)
}
