package signin

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/jwt"
	"github.com/gpuaas/gpuaas/policies"
)

// Authenticate returns the caller of a token: an API key, a session, an access token of the provider, or
// a token of a service account.
func (s *Service) Authenticate(ctx context.Context, token string) (identity.Caller, error) {
	switch {
	case token == "":
		return identity.Caller{}, errs.New(errs.TokenMissing, "this request needs a token")
	case len(token) < identity.TokenLength || len(token) > jwt.MaxSize:
		return identity.Caller{}, tokenInvalid()
	}
	hash := sha256.Sum256([]byte(token))
	now := s.Clock.Now()
	epoch := s.RightsEpoch()
	if caller, found := s.tokens.Get(hash, epoch, now); found {
		return caller, nil
	}
	caller, left, err := s.findToken(unscoped(ctx), token, hash)
	if err != nil {
		return identity.Caller{}, err
	}
	s.tokens.Put(hash, caller, epoch, now.Add(min(left, identity.CachedFor)))
	return caller, nil
}

// findToken returns the caller and how long the token still lives.
func (s *Service) findToken(ctx context.Context, token string, hash [32]byte) (identity.Caller, time.Duration, error) {
	switch {
	case len(token) == identity.TokenLength && strings.HasPrefix(token, identity.KeyPrefix):
		c, left, _, err := s.holder(ctx, selectKeyHolder, touchKey, hash)
		return c, left, err
	case len(token) == identity.TokenLength && strings.HasPrefix(token, identity.SessionPrefix):
		return s.sessionHolder(ctx, token, hash)
	case strings.HasPrefix(token, identity.CredentialPrefix):
		return identity.Caller{}, 0, errs.New(errs.TokenInvalid, "the secret of a service account is no token").
			Try("exchange it: POST /api/v1/service-accounts/token with {\"secret\": \"gps_…\"}, or gpuaas service-account token")
	case strings.HasPrefix(token, enrolmentPrefix):
		return identity.Caller{}, 0, errs.New(errs.TokenInvalid, "the enrolment token of a node is no token of the API").
			Try("use it on the node: gpuaas-agent install")
	case strings.HasPrefix(token, identity.LinkPrefix):
		return identity.Caller{}, 0, errs.New(errs.TokenInvalid, "the code of the first administrator is no token").
			Try("open /first-admin in a browser and enter it there")
	}
	return s.bearer(ctx, token, hash)
}

// enrolmentPrefix begins the tokens that product/fleet gives to nodes.
const enrolmentPrefix = "gpe_"

// sessionHolder returns the caller of a session. The rights are read again after the provider has confirmed them.
func (s *Service) sessionHolder(ctx context.Context, token string, hash [32]byte) (identity.Caller, time.Duration, error) {
	c, left, unconfirmed, err := s.holder(ctx, selectSessionHolder, touchSession, hash)
	if err != nil || !s.isDue(unconfirmed) {
		return c, left, err
	}
	if err := s.confirm(ctx, token, c.Session, unconfirmed); err != nil {
		return identity.Caller{}, 0, err
	}
	c, left, _, err = s.holder(ctx, selectSessionHolder, touchSession, hash)
	return c, left, err
}

// Unconfirmed returns the caller of a session that the provider need not confirm, because the session is about to end.
func (s *Service) Unconfirmed(ctx context.Context, token string) (identity.Caller, error) {
	c, _, _, err := s.holder(unscoped(ctx), selectSessionHolder, touchSession, sha256.Sum256([]byte(token)))
	return c, err
}

// holder returns the caller of a secret that this installation has issued. The database's clock decides
// whether it has expired, so that servers with different clocks agree. unconfirmed is the time since the
// provider last confirmed a session.
func (s *Service) holder(ctx context.Context, statement, touch string, hash [32]byte) (_ identity.Caller, left, unconfirmed time.Duration, _ error) {
	var c identity.Caller
	var tenant *uuid.UUID
	var id uuid.UUID
	var scopes []string
	var ms int64     // until its end
	var since *int64 // milliseconds
	var stale bool
	var at *time.Time // of the sign-in; for an API key, its end
	err := s.DB.QueryRow(ctx, statement, hash[:]).Scan(&c.User.UUID, &c.Email, &c.Name, &c.Role,
		&tenant, &c.TenantName, &c.TenantRole, &id, &scopes, &ms, &stale, &at, &c.SignIn.Methods, &since)
	if errors.Is(err, pgx.ErrNoRows) {
		return identity.Caller{}, 0, 0, tokenInvalid()
	}
	if err != nil {
		return identity.Caller{}, 0, 0, fmt.Errorf("looking up a token: %w", err)
	}
	if tenant != nil {
		c.Tenant = ids.From[ids.Tenant](*tenant)
	}
	when := time.Time{}
	if at != nil {
		when = *at
	}
	c.Scopes, c.Limited = scopesOf(scopes), len(scopes) > 0
	switch {
	case ms <= 0:
		return identity.Caller{}, 0, 0, tokenExpired()
	case touch == touchSession:
		c.Session.UUID, c.SignIn.At = id, when
	case !s.PolicyFor(c).Bool(policies.AuthAPIKeysEnabled):
		return identity.Caller{}, 0, 0, errs.New(errs.TokenInvalid, "API keys are disabled").Try("sign in")
	}
	if touch == touchKey {
		c.Key.UUID, c.KeyEnd = id, when
	}
	if err := s.Strong(c.Role, c.SignIn); err != nil {
		return identity.Caller{}, 0, 0, err
	}
	s.touch(ctx, stale, touch, id)
	// The result is limited to identity.CachedFor: the remaining lifetime of a key without an end would overflow
	// a Duration.
	if since != nil {
		unconfirmed = time.Duration(*since) * time.Millisecond
	}
	return c, time.Duration(min(ms, identity.CachedFor.Milliseconds())) * time.Millisecond, unconfirmed, nil
}

// touch notes a use, once a minute. It may be lost: nothing is decided by it.
func (s *Service) touch(ctx context.Context, stale bool, statement string, id uuid.UUID) {
	if stale {
		_, _ = s.DB.Exec(ctx, statement, id)
	}
}

// noEpoch marks entries that do not depend on rights: a valid signature stays valid.
const noEpoch = 0

// proven is a signed token whose signature and claims were good under these keys.
type proven struct {
	issuer, subject string
	own             bool
	claims          Claims // of our own tokens
	signIn          identity.SignIn
	until           time.Time
	keys            string
}

// bearer returns the caller of a signed token. The database decides its current rights, not the token's
// claims.
func (s *Service) bearer(ctx context.Context, token string, hash [32]byte) (identity.Caller, time.Duration, error) {
	p, err := s.prove(ctx, token, hash)
	if err != nil {
		return identity.Caller{}, 0, err
	}
	var c identity.Caller
	if p.own {
		c, err = s.programOf(ctx, p.claims, revokedAs(token))
	} else {
		c, err = s.personOf(ctx, p, revokedAs(token))
	}
	return c, p.until.Sub(s.Clock.Now()), err
}

// prove verifies a token, or reads the cached result, which is valid until the token expires or the keys
// change.
func (s *Service) prove(ctx context.Context, token string, hash [32]byte) (proven, error) {
	p, found := s.proven.Get(hash, noEpoch, s.Clock.Now())
	if !found {
		t, err := jwt.Parse(token)
		if err != nil {
			return proven{}, err
		}
		p.own = s.Tokens != nil && t.Claims.Text("iss") == s.Tokens.Issuer
	}
	keys, err := s.keys(ctx, p.own)
	if err != nil {
		return proven{}, err
	}
	if found && p.keys == keys {
		return p, nil
	}
	// The keys were read first. If they change meanwhile, the token is only verified once more than
	// needed.
	p.keys = keys
	if err := s.verify(ctx, token, &p); err != nil {
		return proven{}, err
	}
	s.proven.Put(hash, p, noEpoch, p.until)
	return p, nil
}

func (s *Service) keys(ctx context.Context, own bool) (string, error) {
	switch {
	case own:
		return s.Tokens.print(), nil
	case s.Provider == nil:
		return "", tokenInvalid()
	}
	return s.Provider.Keys(ctx)
}

func (s *Service) verify(ctx context.Context, token string, p *proven) (err error) {
	if p.own {
		p.claims, err = s.Tokens.Verify(token)
		p.until = p.claims.Until
		return err
	}
	v, err := s.Provider.Verify(ctx, token)
	p.issuer, p.subject, p.until, p.signIn = v.Issuer, v.Subject, v.Until, v.SignIn
	return err
}

// revokedAs returns the key under which a revoked token is stored: a hash of the signed part. The
// signature is left out, because anybody can derive a second valid signature from one ECDSA signature.
func revokedAs(token string) [32]byte {
	return sha256.Sum256([]byte(token[:max(strings.LastIndexByte(token, '.'), 0)]))
}

func (s *Service) personOf(ctx context.Context, p proven, revoked [32]byte) (c identity.Caller, err error) {
	var tenant *uuid.UUID
	var refused bool
	err = s.DB.QueryRow(ctx, selectSubject, p.issuer, p.subject, revoked[:]).
		Scan(&c.User.UUID, &c.Email, &c.Name, &c.Role, &tenant, &c.TenantName, &c.TenantRole, &refused)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return identity.Caller{}, errs.New(errs.UserNotFound, "no user belongs to this token").Try("sign in once: gpuaas login, or the sign-in page")
	case err != nil:
		return identity.Caller{}, fmt.Errorf("looking up a person: %w", err)
	case refused:
		return identity.Caller{}, tokenInvalid()
	}
	if tenant != nil {
		c.Tenant = ids.From[ids.Tenant](*tenant)
	}
	c.SignIn = p.signIn
	return c, s.Strong(c.Role, c.SignIn)
}

// programOf is the account that a token was minted for, with what is left of its scopes. What a CI job
// creates ends with the token of the job: the credential of a forge admits later jobs too.
func (s *Service) programOf(ctx context.Context, t Claims, revoked [32]byte) (identity.Caller, error) {
	h, err := s.scanProgram(s.DB.QueryRow(ctx, selectProgram, t.Account, t.Credential, t.Tenant, t.Project, revoked[:]))
	if err != nil {
		return identity.Caller{}, err
	}
	if h.left <= 0 {
		return identity.Caller{}, tokenInvalid()
	}
	s.touch(ctx, h.stale, touchCredential, h.credential.UUID)
	h.caller.Scopes, h.caller.Limited = scopesOf(t.Scopes)&h.scopes, true
	if h.federated {
		h.caller.KeyEnd = t.Until
	}
	return h.caller, nil
}

func tokenInvalid() error {
	return errs.New(errs.TokenInvalid, "the token is not valid").Try("sign in again, or make a new key")
}

func tokenExpired() error {
	return errs.New(errs.TokenExpired, "the token has expired").Try("sign in again")
}
