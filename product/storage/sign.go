package storage

import (
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/delegation"
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

// Signed is a signed URL.
type Signed struct {
	URL, Method string
	Expires     time.Time
}

// Signing describes the URL that a caller wants.
type Signing struct {
	Method string // GET or PUT
	Path   objectpath.Path
	Life   time.Duration // zero: the longest possible
	// Answer returns the headers that the object store adds to its response to a GET.
	Answer func(Object) map[string]string
	// URL returns the URL of this server for a grant.
	URL func(Grant) (string, error)
}

// Sign returns a URL that permits one method on one path without a token. It is one of the object store for a download,
// where the object store has such URLs.
func (s *Service) Sign(ctx context.Context, ch identity.Change[Signed], want Signing) (Signed, error) {
	at := ScopeOf(ch.Caller)
	most := s.Limits(at.Tenant, at.Project).SignedURL
	if want.Life > most {
		return Signed{}, errs.Invalid("expires_seconds", "is greater than %d", int(most.Seconds())).With("policy", "storage.signed_url_seconds")
	}
	if want.Life == 0 {
		want.Life = most
	}
	return ch.Apply(ctx, s.Identity, func() (Signed, func(*pgx.Batch), error) {
		g, target, err := s.grant(ctx, ch.Caller, want)
		if err != nil {
			return Signed{}, nil, err
		}
		signed := Signed{Method: g.Method, Expires: g.Expires}
		signed.URL, err = s.signedURL(ctx, at, g, want)
		return signed, func(b *pgx.Batch) {
			s.note(b, at, "storage_object.sign", target, map[string]any{"path": g.Path.String(), "method": g.Method, "expires_at": g.Expires})
		}, err
	})
}

// grant returns what a URL permits, and the id of the object or, for an upload, of the project.
func (s *Service) grant(ctx context.Context, c identity.Caller, want Signing) (Grant, uuid.UUID, error) {
	at := ScopeOf(c)
	g := Grant{Method: want.Method, Path: want.Path, Expires: s.Clock.Now().Add(want.Life), Signer: delegation.Refer(c)}
	if want.Method == http.MethodPut {
		w, err := walk(ctx, s.DB, at, want.Path)
		if err == nil {
			_, err = w.writable(Condition{})
		}
		return g, at.Project.UUID, err
	}
	o, err := s.Stat(ctx, at, want.Path)
	if err == nil && o.Type == File {
		g = grantOf(o, g.Expires)
	}
	return g, o.ID, err
}

func grantOf(o Object, until time.Time) Grant {
	return Grant{
		Method: http.MethodGet, Path: o.Path, Expires: until, Key: o.Key, Size: o.Size, SHA256: hex.EncodeToString(o.SHA256), MediaType: o.MediaType,
	}
}

// GrantDownload returns the grant of a download that its caller may do now.
func (s *Service) GrantDownload(at Scope, o Object) Grant {
	return grantOf(o, s.Clock.Now().Add(s.Limits(at.Tenant, at.Project).SignedURL))
}

func (s *Service) signedURL(ctx context.Context, at Scope, g Grant, want Signing) (string, error) {
	if g.Key != uuid.Nil {
		o := g.object()
		if url, ok, err := s.signedDownload(ctx, o, want.Answer(o), want.Life); ok || err != nil {
			return url, err
		}
	}
	return want.URL(g)
}

func (g Grant) object() Object {
	sum, _ := hex.DecodeString(g.SHA256) // empty where it is not known
	if len(sum) == 0 {
		sum = nil
	}
	return Object{Path: g.Path, Name: g.Path.Name(), Type: File, Key: g.Key, Size: g.Size, SHA256: sum, MediaType: g.MediaType}
}

// OpenGranted returns the file of a grant and its bytes. It reads no database.
func (s *Service) OpenGranted(ctx context.Context, g Grant) (Object, *Content, error) {
	o := g.object()
	switch _, err := s.Blobs.Stat(ctx, g.Key); {
	case errors.Is(err, blob.ErrNotFound):
		return o, nil, notFound(g.Path)
	case err != nil:
		return o, nil, Unavailable(err)
	}
	return o, &Content{ctx: ctx, blobs: s.Blobs, object: o}, nil
}
