package storage

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/api/rest/storage/attachment"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/blob"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// UploadStorage handles PUT /api/v1/storage/upload.
func (s *Handlers) UploadStorage(ctx context.Context, req oapi.UploadStorageRequestObject) (oapi.UploadStorageResponseObject, error) {
	c, err := request.GinContext(ctx)
	if err != nil {
		return nil, err
	}
	ctx, r := request.Of(ctx)
	p := req.Params
	f, err := fileOf(c.Request, p.IfMatch, p.IfNoneMatch != nil, p.ContentDigest)
	if err != nil {
		return nil, err
	}
	if f.Path, err = objectpath.Parse("path", p.Path); err != nil {
		return nil, err
	}
	o, created, err := s.Storage.Upload(ctx, storage.ScopeOf(r.Caller), f, req.Body)
	switch {
	case err != nil:
		return nil, err
	case created:
		return oapi.UploadStorage201JSONResponse{Body: s.show(r, o), Headers: oapi.UploadStorage201ResponseHeaders{Location: locationOf(o), ETag: o.ETag()}}, nil
	}
	return oapi.UploadStorage200JSONResponse{Body: s.show(r, o), Headers: oapi.UploadStorage200ResponseHeaders{ETag: o.ETag()}}, nil
}

// fileOf returns the file that the headers of an upload describe.
func fileOf(r *http.Request, match *string, absent bool, digest *string) (f storage.NewFile, err error) {
	f = storage.NewFile{Size: r.ContentLength, If: storage.Condition{ETag: request.Or(match, ""), Absent: absent}}
	if f.MediaType, err = mediaTypeOf(r.Header.Get("Content-Type")); err == nil {
		f.SHA256, err = digestOf(request.Or(digest, ""))
	}
	return f, err
}

const maxMediaType = 255

// mediaTypeOf returns the media type of an upload without its parameters.
func mediaTypeOf(header string) (string, error) {
	if header == "" {
		return "", nil
	}
	name, _, err := mime.ParseMediaType(header)
	if err != nil || len(name) > maxMediaType || !strings.Contains(name, "/") {
		return "", errs.Invalid("Content-Type", "is not a media type")
	}
	return name, nil
}

// digestOf reads the SHA-256 of a Content-Digest (RFC 9530). Other algorithms are not compared.
func digestOf(header string) ([]byte, error) {
	if header == "" {
		return nil, nil
	}
	for entry := range strings.SplitSeq(header, ",") {
		value, ok := strings.CutPrefix(strings.TrimSpace(entry), "sha-256=:")
		if !ok {
			continue
		}
		sum, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(value, ":"))
		if err != nil || len(sum) != sha256.Size || !strings.HasSuffix(value, ":") {
			return nil, errs.Invalid("Content-Digest", "has no SHA-256 in Base64 between colons")
		}
		return sum, nil
	}
	return nil, errs.Invalid("Content-Digest", "has no sha-256").Try("send sha-256=:…:")
}

// DownloadStorage handles GET /api/v1/storage/download.
func (s *Handlers) DownloadStorage(ctx context.Context, req oapi.DownloadStorageRequestObject) (oapi.DownloadStorageResponseObject, error) {
	c, err := request.GinContext(ctx)
	if err != nil {
		return nil, err
	}
	ctx, r := request.Of(ctx)
	p, err := objectpath.Parse("path", req.Params.Path)
	if err != nil {
		return nil, err
	}
	o, content, err := s.Storage.Open(ctx, storage.ScopeOf(r.Caller), p)
	if err != nil {
		return nil, err
	}
	scope := storage.ScopeOf(r.Caller)
	at, elsewhere, err := s.Storage.SignedDownload(ctx, o, attachment.Answer(o), s.Storage.Limits(scope.Tenant, scope.Project).SignedURL)
	// A browser with a session receives the bytes from another origin, where there is one.
	if err == nil && !elsewhere && r.ByCookie && s.Origin != "" {
		elsewhere = true
		at, err = s.urlOf(s.Signed.Download(scope, o))
	}
	if err != nil {
		return nil, err
	}
	// A cached version needs no other server.
	if elsewhere && !request.NotModified(req.Params.IfNoneMatch, o.ETag()) {
		return oapi.DownloadStorage302Response{Headers: oapi.DownloadStorage302ResponseHeaders{Location: at}}, nil
	}
	return s.send(ctx, c.Request, o, content), nil
}

// send responds with the bytes of a file, or with a range of them.
func (s *Handlers) send(ctx context.Context, r *http.Request, o storage.Object, content *blob.Reader) transfer {
	return func(w http.ResponseWriter) error {
		defer content.Close() //nolint:errcheck // it was read
		attachment.SetHeaders(w.Header(), o)
		out := &patient{ResponseWriter: w, s: s}
		http.ServeContent(out, preconditions(ctx, r), "", time.Time{}, content)
		if out.failed != nil {
			s.Exports.Log.WarnContext(ctx, "a download broke off", slog.String("object_id", o.Key.String()), slog.Any("err", out.failed))
		}
		return nil
	}
}

// oneRange matches one range of bytes, which the API supports. Another header is ignored, as HTTP permits.
var oneRange = regexp.MustCompile(`^bytes=([0-9]+-[0-9]*|-[0-9]+)$`)

// preconditions returns the request with the preconditions that the contract has.
func preconditions(ctx context.Context, r *http.Request) *http.Request {
	send := r.WithContext(ctx)
	if request.IsHead(ctx) {
		send.Method = http.MethodHead
	}
	send.Header = http.Header{}
	for _, name := range []string{"If-None-Match", "If-Range", "Range"} {
		if value := r.Header.Get(name); value != "" && (name != "Range" || oneRange.MatchString(value)) {
			send.Header.Set(name, value)
		}
	}
	return send
}

// transfer replaces the generated response, which knows one status only.
type transfer func(http.ResponseWriter) error

// VisitDownloadSignedStorageResponse writes the response.
func (write transfer) VisitDownloadSignedStorageResponse(w http.ResponseWriter) error {
	return write(w)
}

// VisitDownloadStorageFolderResponse writes the response.
func (write transfer) VisitDownloadStorageFolderResponse(w http.ResponseWriter) error {
	return write(w)
}

// VisitDownloadStorageResponse writes the response.
func (write transfer) VisitDownloadStorageResponse(w http.ResponseWriter) error { return write(w) }

// patient extends the deadline of a download while its client reads.
type patient struct {
	http.ResponseWriter

	s        *Handlers
	extended time.Time
	failed   error
}

// extend moves the deadline, if it was not moved just now.
func (p *patient) extend() error {
	now := p.s.Clock.Now()
	if now.Sub(p.extended) < extendEvery {
		return nil
	}
	p.extended = now
	return p.s.Exports.Extend(p.ResponseWriter)
}

// ReadFrom passes the bytes of a file to the connection, past the writers that only count.
func (p *patient) ReadFrom(src io.Reader) (int64, error) {
	n, ok, err := blob.Send(response.Connection(p.ResponseWriter), src, p.extend)
	if !ok {
		return io.Copy(struct{ io.Writer }{p}, src)
	}
	if err != nil {
		p.failed = err
	}
	return n, err
}

func (p *patient) Write(b []byte) (int, error) {
	if p.failed = p.extend(); p.failed != nil {
		return 0, p.failed
	}
	n, err := p.ResponseWriter.Write(b)
	if err != nil && !errors.Is(err, http.ErrBodyNotAllowed) {
		p.failed = err
	}
	return n, err
}

const extendEvery = response.WriteTimeout / 12
