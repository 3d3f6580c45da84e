package middleware

import (
	"crypto/sha256"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/handshake"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Admit runs the steps before an operation of the contract in this sequence. A rejected request costs
// nothing in the later steps.
func (s *Chain) Admit(c *gin.Context) {
	_, r := request.Of(c)
	r.Op = s.Operation(c.Request.Method, c.FullPath())
	if r.Op == nil {
		s.NoRoute(c)
		return
	}
	// The router matches a fixed path, such as /service-accounts/token, with the parameter of another path if only
	// that one has the method.
	if methods := s.fixed[r.URL.Path]; len(methods) > 0 && !slices.Contains(methods, c.Request.Method) {
		c.Header("Allow", strings.Join(slices.Sorted(slices.Values(methods)), ", "))
		s.NoMethod(c)
		return
	}
	defer leave(r)
	for _, step := range [...]func(*gin.Context, *request.Call) error{
		s.authenticate, s.limitRate, s.authorise, s.rejectWrites, s.confine, s.takeTurn, s.validate, s.takeKey,
	} {
		if err := step(c, r); err != nil {
			if !s.repeatedUnseen(c, r, err) {
				s.Fail(c, err)
			}
			return
		}
	}
	if s.repeated(c, r) {
		return
	}
	c.Next()
	s.recordKey(c, r)
}

// repeatedUnseen responds to the repetition of a change after which its object does not exist any more.
// A second DELETE of a project is rejected for the project, before its key is read.
func (s *Chain) repeatedUnseen(c *gin.Context, r *request.Call, refused error) bool {
	if !r.Op.Write || r.Key.Key != "" || errs.CodeOf(refused) != errs.NotFound {
		return false
	}
	// The stored response, too, is only for the caller of the first request.
	if s.confine(c, r) != nil || s.validate(c, r) != nil || s.takeKey(c, r) != nil || r.Key.Key == "" {
		return false
	}
	first, found, err := s.Identity.Replay(c.Request.Context(), r.Key)
	// The caller is not authorised yet, so a secret is not repeated.
	if err != nil || !found || first.Secret {
		return false
	}
	response.Replay(c.Writer, first)
	c.Abort()
	return true
}

// authenticate finds the caller. A failed try is charged to its address, so that guessing tokens is
// slow.
func (s *Chain) authenticate(c *gin.Context, r *request.Call) error {
	if r.Op.Public {
		return nil
	}
	callerOf := s.CallerOf
	if r.Op.ID == "logout" {
		callerOf = s.Leaving
	}
	caller, err := callerOf(c, r)
	if err != nil {
		if e := s.Charge(c, request.ClassAnonymous, identity.Caller{}); e != nil {
			return e
		}
		if errs.CodeOf(err) == errs.ProviderFailed { // a status of each operation, as for the database
			return errs.New(errs.Unavailable, "the identity provider cannot confirm this session").Try("repeat it when the provider works").Because(err)
		}
		return err
	}
	if r.ByCookie && r.Op.Write {
		if err := request.SameOrigin(c.Request); err != nil {
			return err
		}
	}
	r.Caller = caller
	name(r)
	return nil
}

// CallerOf returns the caller of the token in the request.
func (s *Chain) CallerOf(c *gin.Context, r *request.Call) (identity.Caller, error) {
	token, err := s.Token(c, r)
	if err != nil {
		return identity.Caller{}, err
	}
	caller, err := s.SignIn.Authenticate(c.Request.Context(), token)
	caller.CorrelationID, caller.Trace, caller.Client = r.CorrelationID, r.Traceparent, request.Client(c.Request)
	return caller, err
}

// Leaving is CallerOf for a sign-out, which a provider that is away does not prevent.
func (s *Chain) Leaving(c *gin.Context, r *request.Call) (identity.Caller, error) {
	caller, err := s.CallerOf(c, r)
	if errs.CodeOf(err) != errs.ProviderFailed {
		return caller, err
	}
	token, err := s.Token(c, r)
	if err != nil {
		return identity.Caller{}, err
	}
	caller, err = s.SignIn.Unconfirmed(c.Request.Context(), token)
	caller.CorrelationID, caller.Trace, caller.Client = r.CorrelationID, r.Traceparent, request.Client(c.Request)
	return caller, err
}

// Token returns the token of the header, or of the subprotocol of a websocket, or else of the session cookie.
// Client libraries of programs may send cookies that they have collected. Two headers are an error.
func (s *Chain) Token(c *gin.Context, r *request.Call) (string, error) {
	var offered string
	if r.Op != nil && r.Op.WebSocket {
		var err error
		if offered, err = handshake.TokenOf(c.Request.Header); err != nil {
			return "", err
		}
	}
	if h := c.Request.Header["Authorization"]; len(h) > 0 {
		scheme, token, _ := strings.Cut(h[0], " ")
		switch {
		case offered != "":
			return "", errs.New(errs.BadRequest, "there is a token in the Authorization header and in the subprotocol").At("Authorization").Try("send one of them")
		case len(h) > 1:
			return "", errs.New(errs.BadRequest, "there are %d Authorization headers", len(h)).At("Authorization")
		case !strings.EqualFold(scheme, "Bearer"):
			return "", errs.New(errs.TokenInvalid, "the Authorization header is of another scheme than Bearer").At("Authorization").
				Try("send Authorization: Bearer and the token")
		}
		return strings.TrimSpace(token), nil
	}
	if offered != "" {
		return offered, nil
	}
	cookie, err := request.SessionToken(c.Request)
	r.ByCookie = cookie != ""
	return cookie, err
}

// takeKey reads the idempotency key. The hash covers path, project and body, because the same key on
// another path or project is another request.
func (s *Chain) takeKey(c *gin.Context, r *request.Call) error {
	// Without a sign-in a key has no owner, and a caller would receive the response of another one.
	// The key of a stream would not cover its body.
	if !r.Op.Write || r.Op.Public || r.Op.Stream {
		return nil
	}
	key, err := keyOf(c.Request.Header)
	if err != nil || key == "" {
		return err
	}
	r.Key = identity.Key{Principal: r.Caller.Principal(), Method: c.Request.Method, Route: r.Op.Route.Path, Key: key}
	at := c.Request.URL
	about := at.EscapedPath() + "\n" // none of the parts can contain a line feed
	if r.Op.Project == request.MayProject || r.Op.Project == request.MustProject {
		about += r.Caller.Project.String() + "\n" // however it was named; elsewhere the path names it
	}
	if at.RawQuery != "" {
		about += at.RawQuery + "\n"
	}
	h := sha256.New()
	_, _ = h.Write([]byte(about))
	_, _ = h.Write(r.Body)
	h.Sum(r.Key.BodyHash[:0])
	return nil
}

const maxKey = 255

// keyOf reads the key from our header or, quoted, from the header of the IETF draft.
func keyOf(h http.Header) (string, error) {
	name, key := "X-Idempotency-Key", h.Get("X-Idempotency-Key")
	if draft := h.Get("Idempotency-Key"); draft != "" {
		if len(draft) >= 2 && draft[0] == '"' && draft[len(draft)-1] == '"' {
			draft = draft[1 : len(draft)-1]
		}
		if key != "" && key != draft {
			return "", errs.Invalid("Idempotency-Key", "differs from X-Idempotency-Key")
		}
		name, key = "Idempotency-Key", draft
	}
	if len(key) > maxKey {
		return "", errs.Invalid(name, "is longer than %d characters", maxKey)
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errs.Invalid(name, "contains characters other than visible ASCII")
	}
	return key, nil
}
