package storage

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/api/rest/storage/attachment"
	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/delegation"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/archive"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
	"github.com/gpuaas/gpuaas/product/storage/signed"
)

// SignedPath is the path of signed URLs.
const SignedPath = "/api/v1/storage/signed"

// SignStorageUrl handles POST /api/v1/storage/sign.
func (s *Handlers) SignStorageUrl(ctx context.Context, req oapi.SignStorageUrlRequestObject) (oapi.SignStorageUrlResponseObject, error) {
	ctx, r := request.Of(ctx)
	p, err := objectpath.Parse("path", req.Body.Path)
	if err != nil {
		return nil, err
	}
	method := string(request.Or(req.Body.Method, oapi.StorageSignRequestMethodGET))
	if method == http.MethodPut {
		if err := s.may(r.Caller, "uploadStorage"); err != nil {
			return nil, err
		}
	}
	show := func(g signed.URL) oapi.StorageSignedUrl {
		return oapi.StorageSignedUrl{Url: g.Address, Method: oapi.StorageSignedUrlMethod(g.Method), ExpiresAt: g.Expires.UTC()}
	}
	g, err := s.Signed.Create(ctx, response.Change(r, func(g signed.URL) identity.Reply {
		reply := response.Reply(http.StatusOK, show(g), "", "")
		reply.Secret = true
		return reply
	}), signed.Request{
		Method: method, Path: p, Life: time.Duration(request.Or(req.Body.ExpiresSeconds, 0)) * time.Second, Answer: attachment.Answer, Seal: s.urlOf,
	})
	if err != nil {
		return nil, err
	}
	return oapi.SignStorageUrl200JSONResponse{Body: show(g)}, nil
}

// placeOf binds a sealed grant to its method.
func placeOf(method string) envelope.Place {
	return envelope.Place{Table: "storage_objects", Column: "signed", Row: method}
}

func (s *Handlers) urlOf(g signed.Grant) (string, error) {
	text, err := json.Marshal(g)
	if err != nil {
		return "", fmt.Errorf("writing a grant: %w", err)
	}
	sealed := base64.RawURLEncoding.EncodeToString(s.Cursors.Keys.Seal(text, placeOf(g.Method)))
	return s.filesOrigin() + SignedPath + "?" + url.Values{"grant": {sealed}}.Encode(), nil
}

// filesOrigin returns the origin of signed URLs. Where it is another one than that of the portal, a browser never has a
// session there.
func (s *Handlers) filesOrigin() string {
	if s.Origin != "" {
		return s.Origin
	}
	return s.Storage.PublicURL()
}

// open reads the grant of a signed URL.
func (s *Handlers) open(method, sealed string) (g signed.Grant, err error) {
	refused := errs.New(errs.Forbidden, "the signed URL was changed, is for another method, or has ended").At("grant").Try("request another one")
	text, err := base64.RawURLEncoding.Strict().DecodeString(sealed)
	if err != nil {
		return g, refused
	}
	if text, err = s.Cursors.Keys.Open(text, placeOf(method)); err != nil {
		return g, refused
	}
	if err := json.Unmarshal(text, &g); err != nil || !s.Clock.Now().Before(g.Expires) {
		return g, refused
	}
	return g, nil
}

// DownloadSignedStorage handles GET /api/v1/storage/signed.
func (s *Handlers) DownloadSignedStorage(ctx context.Context, req oapi.DownloadSignedStorageRequestObject) (oapi.DownloadSignedStorageResponseObject, error) {
	c, err := request.GinContext(ctx)
	if err != nil {
		return nil, err
	}
	g, err := s.open(http.MethodGet, req.Params.Grant)
	if err != nil {
		return nil, err
	}
	if g.Key == uuid.Nil {
		caller, err := s.signer(ctx, g, "downloadStorageFolder")
		if err != nil {
			return nil, err
		}
		return s.archive(scopeOf(ctx, caller), caller, g.Path)
	}
	o, content, err := s.Signed.Open(ctx, g)
	if err != nil {
		return nil, err
	}
	return s.send(ctx, c.Request, o, content), nil
}

// UploadSignedStorage handles PUT /api/v1/storage/signed.
func (s *Handlers) UploadSignedStorage(ctx context.Context, req oapi.UploadSignedStorageRequestObject) (oapi.UploadSignedStorageResponseObject, error) {
	c, err := request.GinContext(ctx)
	if err != nil {
		return nil, err
	}
	p := req.Params
	g, err := s.open(http.MethodPut, p.Grant)
	if err != nil {
		return nil, err
	}
	caller, err := s.signer(ctx, g, "uploadStorage")
	if err != nil {
		return nil, err
	}
	f, err := fileOf(c.Request, p.IfMatch, p.IfNoneMatch != nil, p.ContentDigest)
	if err != nil {
		return nil, err
	}
	f.Path = g.Path
	o, _, err := s.Storage.Upload(scopeOf(ctx, caller), storage.ScopeOf(caller), f, req.Body)
	if err != nil {
		return nil, err
	}
	return oapi.UploadSignedStorage204Response{Headers: oapi.UploadSignedStorage204ResponseHeaders{ETag: o.ETag()}}, nil
}

// signer returns the caller who has signed a URL, with the rights that they have now.
func (s *Handlers) signer(ctx context.Context, g signed.Grant, operation string) (identity.Caller, error) {
	caller, err := delegation.Present(ctx, s.Identity, g.Signer)
	if err != nil {
		return caller, err
	}
	_, r := request.Of(ctx)
	caller.CorrelationID, caller.Trace = r.CorrelationID, r.Traceparent
	return caller, s.may(caller, operation)
}

func (s *Handlers) may(c identity.Caller, operation string) error {
	if !request.RightTo(operation, func() policies.RoleTable { return s.Policies.Latest().Roles })(c) {
		return errs.New(errs.Forbidden, "the role of the caller does not allow this").With("operation", operation)
	}
	return nil
}

// scopeOf limits statements to the rows of a caller, whose request had no token.
func scopeOf(ctx context.Context, c identity.Caller) context.Context {
	return pg.WithScope(ctx, pg.Scope{Tenant: c.Tenant.String(), Principal: c.Principal().String()})
}

// DownloadStorageFolder handles GET /api/v1/storage/archive.
func (s *Handlers) DownloadStorageFolder(ctx context.Context, req oapi.DownloadStorageFolderRequestObject) (oapi.DownloadStorageFolderResponseObject, error) {
	ctx, r := request.Of(ctx)
	p, err := objectpath.ParseFolder("prefix", request.Or(req.Params.Prefix, ""))
	if err != nil {
		return nil, err
	}
	return s.archive(ctx, r.Caller, p)
}

func (s *Handlers) archive(ctx context.Context, c identity.Caller, p objectpath.Path) (transfer, error) {
	a, err := archive.Of(ctx, s.Storage, storage.ScopeOf(c), p)
	if err != nil {
		return nil, err
	}
	name := "files"
	if len(p) > 0 {
		name = p.Name()
	}
	return transfer(func(w http.ResponseWriter) error {
		h := w.Header()
		h.Set("Content-Type", "application/zip")
		h.Set("Content-Disposition", attachment.Disposition(name+".zip"))
		attachment.Confine(h)
		if request.IsHead(ctx) {
			w.WriteHeader(http.StatusOK)
			return nil
		}
		if err := a.WriteTo(ctx, &patient{ResponseWriter: w, s: s}); err != nil {
			s.Exports.Log.WarnContext(ctx, "an archive broke off", slog.String("object_id", a.Folder.ID.String()), slog.Any("err", err))
			panic(http.ErrAbortHandler) // the only sign for a client that has received status 200
		}
		return nil
	}), nil
}
