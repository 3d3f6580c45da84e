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
	for _, step := range [...]func(*gin.Context, *call) error{
		s.authenticate, s.limitRate, s.authorise, s.validate, s.takeKey,
	} {
		if err := step(c, r); err != nil {
			s.fail(c, err)
			return
		}
	}
	c.Next()
}

const bearer = "Bearer "

// authenticate finds out who calls. A failed try is charged to the address it
// came from, so that guessing tokens is slow.
func (s *Server) authenticate(c *gin.Context, r *call) error {
	if r.op.public {
		return nil
	}
	token := s.token(c, r)
	caller, err := s.Identity.Authenticate(c.Request.Context(), token)
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
	caller.Trace = traceOf(c.Request.Context())
	r.caller = caller
	return nil
}

// token prefers the header: a program that sends one means it, whatever cookies
// its client library has collected.
func (s *Server) token(c *gin.Context, r *call) string {
	if h := c.Request.Header.Get("Authorization"); h != "" {
		if len(h) > len(bearer) && strings.EqualFold(h[:len(bearer)], bearer) {
			return strings.TrimSpace(h[len(bearer):])
		}
		return h // another scheme: no token of ours, so it is refused as one
	}
	if cookie := sessionOf(c.Request); cookie != "" {
		r.byCookie = true
		return cookie
	}
	return ""
}

// authorise finds the project and asks whether one of the caller's roles there
// may call this operation.
func (s *Server) authorise(c *gin.Context, r *call) error {
	if err := s.enterProject(c, r); err != nil {
		return err
	}
	if held(r.caller)&r.op.allowed == 0 {
		return errs.New(errs.Forbidden, "your role does not allow this").With("operation", r.op.id)
	}
	return nil
}

// enterProject makes the caller act in the project that is named, or in the
// tenant's only one. Where a project is optional, a role in the tenant is enough.
func (s *Server) enterProject(c *gin.Context, r *call) error {
	if r.op.project == noProject {
		return nil
	}
	asked := c.Request.Header.Get("X-Project-ID")
	in, err := s.Identity.InProject(c.Request.Context(), r.caller, asked)
	switch {
	case err == nil:
		r.caller = in
		return nil
	case asked == "" && r.op.project == mayProject && held(r.caller)&r.op.allowed != 0 && statusOf(errs.CodeOf(err)) < http.StatusInternalServerError:
		return nil
	}
	return err
}

// takeKey remembers the idempotency key. The hash covers what the key was used
// for: the same key on another path or project is another request.
func (s *Server) takeKey(c *gin.Context, r *call) error {
	if !r.op.write {
		return nil
	}
	key, err := keyOf(c.Request.Header)
	if err != nil || key == "" {
		return err
	}
	r.key = identity.Key{Principal: r.caller.Principal(), Method: c.Request.Method, Route: r.op.route.Path, Key: key}
	h := sha256.New()
	_, _ = h.Write([]byte(c.Request.URL.Path + "\n" + r.caller.Project.String() + "\n"))
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
		return "", errs.Invalid(name, "holds something else than visible ASCII characters")
	}
	return key, nil
}
