package oidc

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"sync"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// algorithm is the default signature algorithm of OIDC providers.
const algorithm = jose.RS256

// signingKeys contains the signing keys, newest first.
type signingKeys struct {
	mu   sync.RWMutex
	keys []jose.JSONWebKey
}

// Rotate makes a new key sign. The old one stays in the JWKS, for the tokens
// that it has signed.
func (s *Server) Rotate() error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("making a signing key: %w", err)
	}
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	made := jose.JSONWebKey{Key: key, KeyID: secret(), Algorithm: string(algorithm), Use: "sig"}
	s.keys.keys = append([]jose.JSONWebKey{made}, s.keys.keys...)
	return nil
}

// DropOldKeys removes all keys but the newest from the JWKS.
func (s *Server) DropOldKeys() {
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	s.keys.keys = s.keys.keys[:1:1]
}

func (r *signingKeys) public() jose.JSONWebKeySet {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var set jose.JSONWebKeySet
	for _, k := range r.keys {
		set.Keys = append(set.Keys, k.Public())
	}
	return set
}

func (r *signingKeys) sign(typ string, claims any) (string, error) {
	r.mu.RLock()
	key := r.keys[0]
	r.mu.RUnlock()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, (&jose.SignerOptions{}).WithType(jose.ContentType(typ)))
	if err != nil {
		return "", fmt.Errorf("making a signer: %w", err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		return "", fmt.Errorf("signing a token: %w", err)
	}
	return token, nil
}

// read returns the claims of a token that this issuer has signed, also after its expiry: an old ID
// token still identifies the user who signs out.
func (r *signingKeys) read(token string) (c claims, err error) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{algorithm})
	if err != nil {
		return c, fmt.Errorf("reading a token: %w", err)
	}
	if err := parsed.Claims(r.public(), &c); err != nil {
		return c, fmt.Errorf("checking a token: %w", err)
	}
	return c, nil
}
