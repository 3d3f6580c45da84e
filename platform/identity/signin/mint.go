package signin

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/jwt"
	"github.com/gpuaas/gpuaas/policies"
)

// Signer contains Ed25519 keys by name. The active one signs.
type Signer interface {
	Active() string
	Sign(kid string, body []byte) ([]byte, error)
	Public() map[string][]byte
}

// Tokens creates and verifies the tokens of service accounts. Its keys sign nothing else, so that the
// signature of a task can never pass as that of a token.
type Tokens struct {
	Issuer, Audience string
	Keys             Signer
	Clock            clock.Clock
	// NotBefore returns the time before which no accepted token was issued: the last restore of the database, which has lost
	// the ends of tokens. Nil means none.
	NotBefore func() time.Time
}

// Claims are the claims of a service account token.
type Claims struct {
	Account    ids.ServiceAccount
	Credential ids.Credential
	Tenant     ids.Tenant
	Project    ids.Project
	Scopes     []string
	Audience   string
	Until      time.Time
}

// wire is the form in the token.
type wireClaims struct {
	Issuer    string             `json:"iss"`
	Audience  []string           `json:"aud"`
	Subject   ids.ServiceAccount `json:"sub"`
	Expires   int64              `json:"exp"`
	IssuedAt  int64              `json:"iat"`
	ID        uuid.UUID          `json:"jti"`
	ActorType string             `json:"actor_type"`
	Tenant    ids.Tenant         `json:"tenant"`
	Project   ids.Project        `json:"project"`
	Scopes    []string           `json:"scopes"`
	CID       ids.Credential     `json:"cid"`
}

const (
	mintedType  = "at+jwt" // RFC 9068
	programType = "service_account"
	// longest is the maximum lifetime of a token (decision 29). A policy can only shorten it.
	longest = time.Hour
)

// Mint signs a token.
func (t *Tokens) Mint(c Claims) (string, error) {
	now := t.Clock.Now()
	text, err := json.Marshal(wireClaims{
		Issuer: t.Issuer, Audience: []string{c.Audience}, Subject: c.Account, Expires: c.Until.Unix(), IssuedAt: now.Unix(), ID: uuid.Must(uuid.NewV7()),
		ActorType: programType, Tenant: c.Tenant, Project: c.Project, Scopes: c.Scopes, CID: c.Credential,
	})
	if err != nil {
		return "", fmt.Errorf("encoding a token: %w", err)
	}
	kid := t.Keys.Active()
	with := jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: opaque{t.Keys, kid}, KeyID: kid}}
	signer, err := jose.NewSigner(with, (&jose.SignerOptions{}).WithType(mintedType))
	if err != nil {
		return "", fmt.Errorf("signing a token: %w", err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		return "", fmt.Errorf("signing a token: %w", err)
	}
	return signed.CompactSerialize()
}

// opaque signs without showing go-jose the key.
type opaque struct {
	keys Signer
	kid  string
}

func (o opaque) Public() *jose.JSONWebKey {
	return &jose.JSONWebKey{Key: ed25519.PublicKey(o.keys.Public()[o.kid]), KeyID: o.kid, Algorithm: string(jose.EdDSA), Use: "sig"}
}

func (opaque) Algs() []jose.SignatureAlgorithm { return []jose.SignatureAlgorithm{jose.EdDSA} }

func (o opaque) SignPayload(body []byte, _ jose.SignatureAlgorithm) ([]byte, error) {
	return o.keys.Sign(o.kid, body)
}

// print is another text whenever a key came or went.
func (t *Tokens) print() string { return strings.Join(slices.Sorted(maps.Keys(t.Keys.Public())), " ") }

// Document is the JWKS by which others verify our tokens.
func (t *Tokens) Document() ([]byte, error) {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, kid := range slices.Sorted(maps.Keys(t.Keys.Public())) {
		set.Keys = append(set.Keys, *opaque{t.Keys, kid}.Public())
	}
	return json.Marshal(set)
}

// Verify validates a token that this installation has signed, and rejects any other.
func (t *Tokens) Verify(raw string) (Claims, error) {
	parsed, err := jwt.Parse(raw)
	if err != nil {
		return Claims{}, err
	}
	public, known := t.Keys.Public()[parsed.KeyID()]
	if !known {
		return Claims{}, jwt.Reject("signing key %q is unknown", parsed.KeyID())
	}
	key, err := jwt.NewKey(jose.JSONWebKey{Key: ed25519.PublicKey(public), KeyID: parsed.KeyID(), Algorithm: string(jose.EdDSA)})
	if err != nil {
		return Claims{}, jwt.Reject("%w", err)
	}
	if err := parsed.Verify(key); err != nil {
		return Claims{}, err
	}
	until, err := parsed.Access(jwt.Rules{Issuer: t.Issuer, Audience: t.Audience, Now: t.Clock.Now()})
	if err != nil {
		return Claims{}, err
	}
	if t.NotBefore != nil {
		issued, err := parsed.Claims.Time("iat")
		if err != nil || issued.Before(t.NotBefore().Truncate(time.Second)) {
			return Claims{}, jwt.Reject("it was issued before the database was restored")
		}
	}
	return claimsOf(parsed, until)
}

func claimsOf(t jwt.Token, until time.Time) (c Claims, err error) {
	if t.Header.Text("typ") != mintedType || t.Claims.Text("actor_type") != programType {
		return c, jwt.Reject("it is no token of a service account")
	}
	c = Claims{Until: until, Scopes: t.Claims.Texts("scopes")}
	for name, to := range map[string]*uuid.UUID{"sub": &c.Account.UUID, "cid": &c.Credential.UUID, "tenant": &c.Tenant.UUID, "project": &c.Project.UUID} {
		if *to, err = uuid.Parse(t.Claims.Text(name)); err != nil {
			return c, jwt.Reject("its %s is no id", name)
		}
	}
	return c, nil
}

// Minted is a new token of a service account. It is displayed once.
type Minted struct {
	Token  string
	For    time.Duration
	Scopes []string
}

// MintToken creates a token for the owner of a credential. The token has the requested scopes, or all
// scopes of the account, and never more.
func (s *Service) MintToken(ctx context.Context, secret string, scopes []string, audience string) (Minted, error) {
	ctx = unscoped(ctx)
	if s.Tokens == nil {
		return Minted{}, errs.New(errs.NotFound, "this installation mints no tokens")
	}
	if len(secret) != identity.TokenLength || !strings.HasPrefix(secret, identity.CredentialPrefix) {
		return Minted{}, tokenInvalid()
	}
	h, err := s.credential(ctx, secret)
	if err != nil {
		return Minted{}, err
	}
	return s.mint(ctx, h, scopes, audience)
}

// mint creates a token that ends with its credential at the latest.
func (s *Service) mint(ctx context.Context, h program, scopes []string, audience string) (Minted, error) {
	scopes, err := narrow(scopes, h.scopes)
	if err != nil {
		return Minted{}, err
	}
	if audience == "" {
		audience = s.Tokens.Audience
	}
	ttl := min(time.Duration(s.PolicyFor(h.caller).Int(policies.AuthServiceAccountTokenTTLSeconds))*time.Second, longest, h.left)
	token, err := s.Tokens.Mint(Claims{
		Account: h.caller.ServiceAccount, Credential: h.credential, Tenant: h.caller.Tenant, Project: h.caller.Project,
		Scopes: scopes, Audience: audience, Until: s.Tokens.Clock.Now().Add(ttl),
	})
	if err != nil {
		return Minted{}, err
	}
	s.touch(ctx, h.stale, touchCredential, h.credential.UUID)
	return Minted{Token: token, For: ttl.Truncate(time.Second), Scopes: scopes}, nil
}

// narrow returns the requested scopes in one sequence. No requested scope means all.
func narrow(asked []string, most policies.Scopes) ([]string, error) {
	if len(asked) == 0 {
		return most.Names(), nil
	}
	want, err := policies.ParseScopes(asked)
	if err != nil {
		return nil, errs.Invalid("scopes", "%s", err).Try("use some of %s", strings.Join(most.Names(), ", "))
	}
	if !want.Within(most) {
		return nil, errs.New(errs.Forbidden, "the service account may not do all of this").At("scopes").
			Try("request some of %s", strings.Join(most.Names(), ", "))
	}
	return want.Names(), nil
}

// program is a service account with one of its credentials.
type program struct {
	caller     identity.Caller
	credential ids.Credential
	scopes     policies.Scopes
	left       time.Duration
	stale      bool // its last use is not from this minute
	federated  bool // of the jobs of a forge
}

func (s *Service) credential(ctx context.Context, secret string) (program, error) {
	hash := sha256.Sum256([]byte(secret))
	h, err := s.scanProgram(s.DB.QueryRow(ctx, selectCredentialHolder, hash[:]))
	if err == nil && h.left <= 0 {
		return h, errs.New(errs.TokenExpired, "the credential has expired").Try("create a new one")
	}
	return h, err
}

// scanProgram reads a program, and further columns of the statement.
func (*Service) scanProgram(row pgx.Row, more ...any) (h program, err error) {
	var scopes []string
	var left int64 // milliseconds
	var end *time.Time
	columns := []any{
		&h.caller.ServiceAccount, &h.caller.Name, &h.caller.Tenant, &h.caller.TenantName, &h.caller.Project, &scopes, &h.credential, &left, &h.stale,
		&end, &h.federated,
	}
	err = row.Scan(append(columns, more...)...)
	if errors.Is(err, pgx.ErrNoRows) {
		return h, tokenInvalid()
	}
	if err != nil {
		return h, fmt.Errorf("looking up a credential: %w", err)
	}
	h.scopes, h.left = scopesOf(scopes), time.Duration(left)*time.Millisecond
	h.caller.Credential = h.credential
	if end != nil {
		h.caller.KeyEnd = *end
	}
	return h, nil
}

// scopesOf reads stored names. One that is no scope any more gives nothing.
func scopesOf(names []string) (s policies.Scopes) {
	for _, name := range names {
		one, err := policies.ParseScopes([]string{name})
		if err == nil {
			s |= one
		}
	}
	return s
}
