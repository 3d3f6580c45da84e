// Package accesskey owns the access keys of the S3 endpoint. It seals their secrets, because the server needs them to verify
// signatures. It makes no authorisation decision: it returns the creator of a key with the present rights.
package accesskey

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/cache"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// SecretPrefix begins the secrets, so that scanners of source code find them.
const SecretPrefix = "gpo_"

const (
	idPrefix = "GPUA"
	idLength = 20
	// maxKeys bounds the keys of a project.
	maxKeys = 100
	maxTTL  = 10 * 365 * 24 * time.Hour
	// An expired key is listed for so long.
	listedFor = 30 * 24 * time.Hour
)

// Service creates and opens keys in the role api, and opens those of mounts in the role node.
type Service struct {
	DB       pg.Pool
	Identity *identity.Service
	Seal     identity.Sealer
	// MountSeal has data keys of its own, because the role node opens the keys of mounts.
	MountSeal identity.Sealer
	// MayMount reports whether a caller may read the files of the project, or change them as well. It is nil in an
	// installation without an S3 endpoint for nodes.
	MayMount func(c identity.Caller, readOnly bool) bool
	// MountURL returns the URL at which nodes and S3 tools reach the S3 endpoint. Nil or empty: it is not known, and
	// allocations have no mounts.
	MountURL func() string
	Clock    clock.Clock

	uses  cache.Cache[string, Use]
	found cache.Cache[string, error] // nil: Find has found the key lately
}

// Key is an access key of a project.
type Key struct {
	ID                    uuid.UUID
	Tenant                ids.Tenant
	Project               ids.Project
	Allocation            ids.Allocation // whose mount uses it, if any
	AccessKeyID           string
	Name                  string
	Prefix                objectpath.Path // empty: all files of the project
	ReadOnly              bool
	CreatedBy             string
	CreatedAt             time.Time
	ExpiresAt, LastUsedAt *time.Time
	Secret                string // only when it was just created

	sealed  []byte
	creator creator
	stale   bool // LastUsedAt is older than a minute
	ended   bool
}

// NewKey describes a new key. A TTL of zero means no expiry.
type NewKey struct {
	Name     string
	Prefix   string
	ReadOnly bool
	TTL      time.Duration
}

func secretAt(id uuid.UUID) envelope.Place {
	return envelope.Place{Table: "storage_access_keys", Column: "secret_enc", Row: id.String()}
}

func resource(k Key) identity.Resource {
	return identity.Resource{Tenant: k.Tenant, Project: k.Project, Kind: "storage-key", ID: k.ID.String()}
}

// Create creates a key of the project. Its secret is displayed once.
func (s *Service) Create(ctx context.Context, ch identity.Change[Key], n NewKey) (Key, error) {
	k, err := s.draft(ch.Caller, n)
	if err == nil {
		err = s.Identity.Recent(ch.Caller)
	}
	if err != nil {
		return Key{}, err
	}
	return ch.Apply(ctx, s.Identity, func() (Key, func(*pgx.Batch), error) {
		k.ID, k.AccessKeyID, k.Secret = uuid.Must(uuid.NewV7()), newID(), newSecret()
		return k, func(b *pgx.Batch) {
			identity.QueueLock(b, ch.Caller)
			b.Queue(deleteExpired, k.Project, listedFor)
			b.Queue(insertKey, k.ID, k.Tenant, k.Project, k.AccessKeyID, s.Seal.Seal([]byte(k.Secret), secretAt(k.ID)), k.Name, k.Prefix.String(), k.ReadOnly, k.creator,
				k.CreatedBy, k.CreatedAt, k.ExpiresAt, maxKeys).Exec(pg.OrElse(errs.New(errs.Conflict, "the project has %d access keys", maxKeys).Try("delete one that is not used")))
			s.Identity.Note(b, ch.Caller, "storage_key.create", resource(k), nil, fields(k))
		}, nil
	})
}

func fields(k Key) audit.Fields {
	return audit.Fields{"name": k.Name, "access_key_id": k.AccessKeyID, "prefix": k.Prefix.String(), "read_only": k.ReadOnly, "expires_at": k.ExpiresAt}
}

func (s *Service) draft(c identity.Caller, n NewKey) (k Key, err error) {
	k = Key{Tenant: c.Tenant, Project: c.Project, ReadOnly: n.ReadOnly, creator: creatorOf(c), CreatedBy: c.Actor(), CreatedAt: s.Clock.Now()}
	if k.Name, err = identity.CheckText("name", n.Name, 1, identity.MaxName); err != nil {
		return k, err
	}
	if k.Prefix, err = objectpath.ParseFolder("prefix", n.Prefix); err != nil {
		return k, err
	}
	switch {
	case n.TTL == 0:
	case n.TTL < time.Second || n.TTL > maxTTL:
		return k, errs.Invalid("ttl_seconds", "must be between 1 and %d", int64(maxTTL/time.Second))
	default:
		end := k.CreatedAt.Add(n.TTL)
		k.ExpiresAt = &end
	}
	k.ExpiresAt, err = c.Within(k.ExpiresAt)
	return k, err
}

// newID returns an id of 80 random bits in the form of S3.
func newID() string {
	text := make([]byte, (idLength-len(idPrefix))*5/8)
	_, _ = rand.Read(text) // never fails: it ends the process instead
	return idPrefix + base32.StdEncoding.EncodeToString(text)
}

func newSecret() string {
	text := make([]byte, 32)
	_, _ = rand.Read(text) // as above
	return SecretPrefix + base64.RawURLEncoding.EncodeToString(text)
}

// Keys lists the keys of a project, oldest first.
func (s *Service) Keys(ctx context.Context, c identity.Caller, after uuid.UUID, limit int) ([]Key, error) {
	return pg.List(ctx, s.DB, "storage keys", selectKeys, scanKey, c.Project, after, limit)
}

// Key returns a key of a project.
func (s *Service) Key(ctx context.Context, c identity.Caller, id uuid.UUID) (Key, error) {
	return pg.One(ctx, s.DB, "storage key", selectKey, scanKey, c.Project, id)
}

// Revoke ends a key. Every server rejects it from then on.
func (s *Service) Revoke(ctx context.Context, ch identity.Change[struct{}], id uuid.UUID) error {
	_, err := ch.ApplyToRights(ctx, s.Identity, func() (none struct{}, _ func(*pgx.Batch), _ error) {
		k, err := s.Key(ctx, ch.Caller, id)
		return none, func(b *pgx.Batch) {
			b.Queue(deleteKey, ch.Caller.Project, id).Exec(pg.OrElse(identity.ErrRaced))
			s.Identity.Note(b, ch.Caller, "storage_key.revoke", resource(k), fields(k), nil)
		}, err
	})
	return err
}

func scanKey(row pgx.CollectableRow) (k Key, err error) {
	prefix := ""
	err = row.Scan(&k.ID, &k.Tenant, &k.Project, &k.AccessKeyID, &k.Name, &prefix, &k.ReadOnly, &k.CreatedBy, &k.CreatedAt, &k.ExpiresAt, &k.LastUsedAt, &k.sealed, &k.creator, &k.stale, &k.Allocation, &k.ended)
	if err == nil {
		k.Prefix, err = objectpath.ParseFolder("prefix", prefix)
	}
	return k, err
}
