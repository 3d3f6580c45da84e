// Package signed permits one method on one path without a token: to everyone who has the URL.
package signed

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/delegation"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// Grant describes the one method on one path that a signed URL permits.
type Grant struct {
	Method  string          `json:"m"` // GET or PUT
	Path    objectpath.Path `json:"p"`
	Expires time.Time       `json:"e"`
	// Signer is the caller whose rights a PUT and an archive need.
	Signer delegation.Reference `json:"s,omitzero"`
	// The bytes of a file, so that its download needs no database. Without a key, the URL returns an archive of a folder.
	Key       uuid.UUID `json:"k,omitzero"`
	Size      int64     `json:"n,omitempty"`
	SHA256    string    `json:"h,omitempty"`
	MediaType string    `json:"t,omitempty"`
}

// Service creates signed URLs, and opens what they permit.
type Service struct{ Storage *storage.Service }

// URL is a signed URL.
type URL struct {
	Address, Method string
	Expires         time.Time
}

// Request describes the URL that a caller wants.
type Request struct {
	Method string // GET or PUT
	Path   objectpath.Path
	Life   time.Duration // zero: the longest possible
	// Answer returns the headers that the object store adds to its response to a GET.
	Answer func(storage.Object) map[string]string
	// Seal returns the address at this server for a grant.
	Seal func(Grant) (string, error)
}

// Create returns a URL that permits one method on one path without a token. It is one of the object store for a download,
// where the object store has such URLs.
func (s *Service) Create(ctx context.Context, ch identity.Change[URL], want Request) (URL, error) {
	at := storage.ScopeOf(ch.Caller)
	most := s.Storage.Limits(at.Tenant, at.Project).SignedURL
	if want.Life > most {
		return URL{}, errs.Invalid("expires_seconds", "is greater than %d", int(most.Seconds())).With("policy", "storage.signed_url_seconds")
	}
	if want.Life == 0 {
		want.Life = most
	}
	return ch.Apply(ctx, s.Storage.Identity, func() (URL, func(*pgx.Batch), error) {
		g, target, err := s.grant(ctx, ch.Caller, want)
		if err != nil {
			return URL{}, nil, err
		}
		u := URL{Method: g.Method, Expires: g.Expires}
		u.Address, err = s.address(ctx, g, want)
		return u, func(b *pgx.Batch) {
			audit.Queue(b, audit.Entry{
				Tenant: at.Tenant, By: at.By, Action: "storage_object.sign", Target: s.Storage.URN(at, target),
				After: map[string]any{"path": g.Path.String(), "method": g.Method, "expires_at": g.Expires},
			})
		}, err
	})
}

// grant returns what a URL permits, and the id of the object or, for an upload, of the project.
func (s *Service) grant(ctx context.Context, c identity.Caller, want Request) (Grant, uuid.UUID, error) {
	at := storage.ScopeOf(c)
	g := Grant{Method: want.Method, Path: want.Path, Expires: s.Storage.Clock.Now().Add(want.Life), Signer: delegation.Refer(c)}
	if want.Method == http.MethodPut {
		return g, at.Project.UUID, s.Storage.MayUpload(ctx, at, storage.NewFile{Path: want.Path})
	}
	o, err := s.Storage.Stat(ctx, at, want.Path)
	if err == nil && o.Type == storage.File {
		g = grantOf(o, g.Expires)
	}
	return g, o.ID, err
}

func grantOf(o storage.Object, until time.Time) Grant {
	return Grant{
		Method: http.MethodGet, Path: o.Path, Expires: until, Key: o.Key, Size: o.Size, SHA256: hex.EncodeToString(o.SHA256), MediaType: o.MediaType,
	}
}

// Download returns the grant of a download that its caller may do now.
func (s *Service) Download(at storage.Scope, o storage.Object) Grant {
	return grantOf(o, s.Storage.Clock.Now().Add(s.Storage.Limits(at.Tenant, at.Project).SignedURL))
}

func (s *Service) address(ctx context.Context, g Grant, want Request) (string, error) {
	if g.Key != uuid.Nil {
		o := g.object()
		if url, ok, err := s.Storage.SignedDownload(ctx, o, want.Answer(o), want.Life); ok || err != nil {
			return url, err
		}
	}
	return want.Seal(g)
}

func (g Grant) object() storage.Object {
	sum, _ := hex.DecodeString(g.SHA256) // empty where it is not known
	if len(sum) == 0 {
		sum = nil
	}
	return storage.Object{Path: g.Path, Name: g.Path.Name(), Type: storage.File, Key: g.Key, Size: g.Size, SHA256: sum, MediaType: g.MediaType}
}

// Open returns the file of a grant and its bytes. It reads no database.
func (s *Service) Open(ctx context.Context, g Grant) (storage.Object, *blob.Reader, error) {
	o := g.object()
	switch _, err := s.Storage.Blobs.Stat(ctx, g.Key); {
	case errors.Is(err, blob.ErrNotFound):
		return o, nil, errs.New(errs.StorageObjectNotFound, "the file of this URL was deleted")
	case err != nil:
		return o, nil, storage.Unavailable(err)
	}
	return o, blob.NewReader(ctx, s.Storage.Blobs, o.Key, o.Size), nil
}
