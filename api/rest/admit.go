package rest

import (
	"crypto/sha256"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// admit takes a request of the contract through the door, step by step in this
// order. A refused request has cost nothing of the later steps.
func (s *Server) admit(c *gin.Context) {
	_, r := of(c)
	r.op = s.operations[route{c.Request.Method, c.FullPath()}]
	if r.op == nil {
		s.noRoute(c)
		return
	}
	defer r.leave()
	for _, step := range [...]func(*gin.Context, *call) error{
		s.authenticate, s.limitRate, s.authorise, s.confine, s.takeTurn, s.validate, s.takeKey,
	} {
		if err := step(c, r); err != nil {
			if !s.repeatedUnseen(c, r, err) {
				s.fail(c, err)
			}
			return
		}
	}
	if s.repeated(c, r) {
		return
	}
	c.Next()
	s.settle(c, r)
}

// repeatedUnseen answers the repetition of a change after which its object is not
// there any more: a second DELETE of a project is refused for the project before
// anybody looks at its key.
func (s *Server) repeatedUnseen(c *gin.Context, r *call, refused error) bool {
	if !r.op.write || r.key.Key != "" || errs.CodeOf(refused) != errs.NotFound {
		return false
	}
	// The kept reply, too, is only in the sight of whoever it was given to.
	if s.confine(c, r) != nil || s.validate(c, r) != nil || s.takeKey(c, r) != nil || r.key.Key == "" {
		return false
	}
	first, found, err := s.Identity.Replay(c.Request.Context(), r.key)
	// Nobody has decided that they may, which is too little for a secret.
	if err != nil || !found || first.Secret {
		return false
	}
	again(c.Writer, first)
	c.Abort()
	return true
}

// authenticate finds out who calls. A failed try is charged to the address it
// came from, so that guessing tokens is slow.
func (s *Server) authenticate(c *gin.Context, r *call) error {
	if r.op.public {
		return nil
	}
	caller, err := s.callerOf(c, r)
	if err != nil {
		if e := s.charge(c, ClassAnonymous, identity.Caller{}); e != nil {
			return e
		}
		return err
	}
	if r.byCookie && r.op.write {
		if err := sameOrigin(c.Request); err != nil {
			return err
		}
	}
	caller.CorrelationID = r.correlation
	caller.Trace = r.traceparent
	r.caller = caller
	r.name()
	return nil
}

func (s *Server) callerOf(c *gin.Context, r *call) (identity.Caller, error) {
	token, err := s.token(c, r)
	if err != nil {
		return identity.Caller{}, err
	}
	return s.Identity.Authenticate(c.Request.Context(), token)
}

// token prefers the header: a program that sends one means it, whatever cookies
// its client library has collected. Of two, nobody can say which one is meant.
func (s *Server) token(c *gin.Context, r *call) (string, error) {
	if h := c.Request.Header["Authorization"]; len(h) > 0 {
		scheme, token, _ := strings.Cut(h[0], " ")
		switch {
		case len(h) > 1:
			return "", errs.New(errs.BadRequest, "there are %d Authorization headers", len(h)).At("Authorization")
		case !strings.EqualFold(scheme, "Bearer"):
			return "", errs.New(errs.TokenInvalid, "the Authorization header is of another scheme than Bearer").At("Authorization").
				Try("send Authorization: Bearer and the token")
		}
		return strings.TrimSpace(token), nil
	}
	cookie, err := sessionOf(c.Request)
	r.byCookie = cookie != ""
	return cookie, err
}

// takeKey remembers the idempotency key. The hash covers what the key was used
// for: the same key on another path or project is another request.
func (s *Server) takeKey(c *gin.Context, r *call) error {
	// Without a sign-in nobody owns a key: one caller would get another's answer.
	if !r.op.write || r.op.public {
		return nil
	}
	key, err := keyOf(c.Request.Header)
	if err != nil || key == "" {
		return err
	}
	r.key = identity.Key{Principal: r.caller.Principal(), Method: c.Request.Method, Route: r.op.route.Path, Key: key}
	at := c.Request.URL
	about := at.EscapedPath() + "\n" // no part can hold the line's end
	if r.op.project == mayProject || r.op.project == mustProject {
		about += r.caller.Project.String() + "\n" // however it was named; elsewhere the path says it
	}
	if at.RawQuery != "" {
		about += at.RawQuery + "\n"
	}
	h := sha256.New()
	_, _ = h.Write([]byte(about))
	_, _ = h.Write(r.body)
	h.Sum(r.key.BodyHash[:0])
	return nil
}

const maxKey = 255

// keyOf reads the key by our name or, quoted, by that of the IETF draft.
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
