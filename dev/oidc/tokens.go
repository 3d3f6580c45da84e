package oidc

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/zitadel/oidc/v3/pkg/oidc"
)

// What Keycloak gives by default: short, so that refreshing is in daily use.
const accessFor = 5 * time.Minute

const (
	typeAccess = "Bearer"
	typeID     = "ID"
)

// claims are the claims of both kinds of token; typ distinguishes them.
type claims struct {
	Issuer          string           `json:"iss"`
	Subject         string           `json:"sub"`
	Audience        []string         `json:"aud"`
	Expiry          *jwt.NumericDate `json:"exp"`
	IssuedAt        *jwt.NumericDate `json:"iat"`
	AuthTime        *jwt.NumericDate `json:"auth_time,omitempty"`
	ACR             string           `json:"acr"`
	AMR             []string         `json:"amr"`
	ID              string           `json:"jti"`
	Type            string           `json:"typ"`
	AuthorizedParty string           `json:"azp"`
	Nonce           string           `json:"nonce,omitempty"`
	Scope           string           `json:"scope,omitempty"`
	AccessHash      string           `json:"at_hash,omitempty"`
	Email           string           `json:"email"`
	EmailVerified   bool             `json:"email_verified"`
	Name            string           `json:"name"`
	Username        string           `json:"preferred_username"`
	RealmAccess     roles            `json:"realm_access"`
}

type roles struct {
	Roles []string `json:"roles"`
}

// methods returns acr and amr of a sign-in. The user presents whatever factor the client requests, unless
// they have none.
func (p Person) methods(requested []string) (acr string, amr []string) {
	if len(requested) == 0 || p.OneFactor {
		return "1", []string{"pwd"}
	}
	return requested[0], []string{"pwd", "otp"}
}

// mint makes the tokens of a grant, with what its person is now.
func (s *Server) mint(g grant, refresh string) (*oidc.AccessTokenResponse, error) {
	p, ok := s.person(g.subject)
	if !ok {
		return nil, oidc.ErrInvalidGrant().WithDescription("there is no such person any more")
	}
	now := s.cfg.Clock.Now()
	acr, amr := p.methods(g.acr)
	c := claims{
		Issuer: s.cfg.Issuer, Subject: p.Subject, Audience: []string{s.cfg.Audience},
		Expiry: jwt.NewNumericDate(now.Add(accessFor)), IssuedAt: jwt.NewNumericDate(now), AuthTime: jwt.NewNumericDate(g.at),
		ACR: acr, AMR: amr, ID: secret(), Type: typeAccess, AuthorizedParty: g.client, Scope: oidc.SpaceDelimitedArray(g.scopes).String(),
		Email: p.Email, EmailVerified: true, Name: p.Name, Username: p.Email,
		RealmAccess: roles{append([]string{}, p.Roles...)},
	}
	access, err := s.keys.sign("at+jwt", c)
	if err != nil {
		return nil, err
	}
	answer := &oidc.AccessTokenResponse{
		AccessToken: access, TokenType: oidc.BearerToken, RefreshToken: refresh, ExpiresIn: uint64(accessFor.Seconds()), Scope: g.scopes,
	}
	if !slices.Contains(g.scopes, oidc.ScopeOpenID) {
		return answer, nil
	}
	half := sha256.Sum256([]byte(access))
	c.Audience, c.Type, c.ID, c.Scope, c.Nonce = []string{g.client}, typeID, secret(), "", g.nonce
	c.AccessHash = base64.RawURLEncoding.EncodeToString(half[:len(half)/2])
	answer.IDToken, err = s.keys.sign("JWT", c)
	return answer, err
}
