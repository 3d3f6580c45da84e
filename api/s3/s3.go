// Package s3 serves the files of a project to S3 tools: a bucket is a project, and a key is the path of a file. It calls the
// same service as the REST API, so that names, quotas, rights and audit are the same. It stores nothing itself.
package s3

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/s3/fault"
	"github.com/gpuaas/gpuaas/api/s3/sigv4"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/patience"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/accesskey"
)

// AnyRegion is the region of clients without a configured one.
const AnyRegion = "us-east-1"

// Limits charge requests to the rate limits of the API. They return the time to wait, or zero.
type Limits interface {
	ChargeStorage(c identity.Caller) time.Duration
	ChargeAnonymous(r *http.Request) time.Duration
}

// Config has the dependencies of the endpoint.
type Config struct {
	Storage *storage.Service
	Keys    *accesskey.Service
	// May decides as the REST API does whether a caller may call an operation.
	May    func(operation string, c identity.Caller) bool
	Limits Limits
	// Region is the region of the endpoint. Clients may sign for AnyRegion too.
	Region string
	// Domain is the domain name of the endpoint, where a bucket can be a label before it; empty: only in the path.
	Domain string
	Log    *slog.Logger
	Clock  clock.Clock
}

// Server is the endpoint.
type Server struct{ Config }

// call is a verified request.
type call struct {
	*Server

	r         *http.Request
	w         http.ResponseWriter
	use       accesskey.Use
	caller    identity.Caller
	signature sigv4.Signature
	chain     sigv4.Chain
	bucket    string
	key       string
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := newRequestID()
	w.Header().Set("X-Amz-Request-Id", id)
	w.Header().Set("Server", "gpuaas")
	deadlines := patience.Deadlines{Control: http.NewResponseController(w), Clock: s.Clock}
	out := &patientWriter{ResponseWriter: w, deadlines: deadlines}
	r.Body = &patience.Body{ReadCloser: r.Body, Deadlines: deadlines}
	defer s.recover(out, r)
	if err := s.serve(out, r, id); err != nil {
		s.fail(out, r, err)
	}
}

func newRequestID() string {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails: it ends the process instead
	return strings.ToUpper(hex.EncodeToString(id))
}

func (s *Server) recover(w *patientWriter, r *http.Request) {
	failure := recover()
	if failure == nil {
		return
	}
	if failure == http.ErrAbortHandler { //nolint:errorlint,err113 // as net/http compares it
		panic(failure)
	}
	s.Log.ErrorContext(r.Context(), "s3 request", slog.Any("panic", failure), slog.String("stack", string(debug.Stack())))
	s.fail(w, r, fault.New(fault.InternalError, "We encountered an internal error. Please try again."))
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request, id string) error {
	if r.Method == http.MethodPost && strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		return fault.New(fault.NotImplemented, "Uploads by POST with a policy are not supported. Use a presigned URL.")
	}
	c, err := s.authenticate(r)
	if err != nil {
		return err
	}
	c.w, c.caller.CorrelationID, c.caller.Client = w, id, request.Client(r)
	if s.Limits.ChargeStorage(c.caller) > 0 {
		return slowDown()
	}
	c.r = r.WithContext(pg.WithScope(r.Context(), pg.Scope{Tenant: c.caller.Tenant.String(), Principal: c.caller.Principal().String()}))
	if c.bucket, c.key, err = s.nameOf(r); err != nil {
		return err
	}
	// A project of another tenant and one that does not exist have the same response.
	if c.bucket != "" && c.bucket != c.use.ProjectName && c.bucket != c.use.Project.String() {
		return fault.New(fault.NoSuchBucket, "The specified bucket does not exist")
	}
	return c.dispatch() //nolint:contextcheck // the context is that of the request of the call
}

func slowDown() error {
	return fault.New(fault.SlowDown, "Please reduce your request rate.")
}

// authenticate verifies the signature of a request. A request is charged to its address before the database is searched for a
// key that has not been found lately, and after any other failure.
func (s *Server) authenticate(r *http.Request) (*call, error) {
	c := &call{Server: s}
	var err error
	if c.signature, err = sigv4.Parse(r); err == nil {
		err = c.signature.Fresh(s.Clock.Now(), s.Region, AnyRegion)
	}
	if err != nil {
		return nil, s.charged(r, err)
	}
	found := s.Keys.FoundLately(c.signature.KeyID)
	if !found {
		if err := s.charged(r, nil); err != nil {
			return nil, err
		}
	}
	if c.use, err = s.Keys.Find(r.Context(), c.signature.KeyID); err == nil {
		c.caller = c.use.Caller
		c.chain, err = c.signature.Verify(r, c.use.Secret)
	}
	if err != nil && found {
		return nil, s.charged(r, keyFault(err))
	}
	return c, keyFault(err)
}

// charged charges a request to its address. It returns the error of the limit, or the given one.
func (s *Server) charged(r *http.Request, otherwise error) error {
	if s.Limits.ChargeAnonymous(r) > 0 {
		return slowDown()
	}
	return otherwise
}

// keyFault gives the failures of the search for a key their codes.
func keyFault(err error) error {
	switch errs.CodeOf(err) { //nolint:exhaustive // the others are those of every request
	case errs.NotFound:
		return fault.New(fault.InvalidAccessKeyID, "The AWS access key Id you provided does not exist in our records.").Because(err)
	case errs.Forbidden:
		return fault.New(fault.AccessDenied, "Who created this access key has no rights in the project any more.").Because(err)
	}
	return err
}

// nameOf returns the bucket and the key of a request, which are in the path, or the bucket is in the domain name.
func (s *Server) nameOf(r *http.Request) (bucket, key string, err error) {
	path, rooted := strings.CutPrefix(r.URL.Path, "/")
	if !rooted && path != "" {
		return "", "", fault.New(fault.InvalidRequest, "The path must begin with a slash.")
	}
	name := r.Host
	if without, _, err := net.SplitHostPort(name); err == nil {
		name = without
	}
	if label, found := strings.CutSuffix(strings.ToLower(name), "."+strings.ToLower(s.Domain)); s.Domain != "" && found {
		return label, path, nil
	}
	bucket, key, _ = strings.Cut(path, "/")
	return bucket, key, nil
}

// may rejects a request that the key or the rights of its creator do not allow.
func (c *call) may(operation string, write bool) error {
	if write && c.use.ReadOnly {
		return fault.New(fault.AccessDenied, "The access key may only read.")
	}
	if !c.May(operation, c.caller) {
		return fault.New(fault.AccessDenied, "The rights of who created this access key do not allow %s.", operation)
	}
	return nil
}

func (c *call) ctx() context.Context { return c.r.Context() }

func (c *call) scope() storage.Scope { return storage.ScopeOf(c.caller) }

func (c *call) change() identity.Change[storage.Object] {
	return identity.Change[storage.Object]{Caller: c.caller}
}

// fail writes an error.
func (s *Server) fail(w *patientWriter, r *http.Request, err error) {
	e := faultOf(err)
	if (e.Code == fault.InternalError || e.Code == fault.ServiceUnavailable) && !errors.Is(err, context.Canceled) {
		s.Log.WarnContext(r.Context(), "s3 request", slog.String("method", r.Method), slog.String("correlation_id", w.Header().Get("X-Amz-Request-Id")), slog.Any("err", err))
	}
	w.fail(r, e)
}
