// Package oidctest is a provider that a test writes tokens for, byte by byte: good
// ones of every algorithm, and those that an attacker would try.
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"hash"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer publishes keys and a description of itself.
type Issuer struct {
	*httptest.Server

	Audience string
	Now      func() time.Time
	Keys     map[string]crypto.Signer // all that it has, published or not

	mu        sync.Mutex
	published []jose.JSONWebKey
	requests  int
	broken    bool
}

// The names of the keys. Pinned keys name an algorithm in the key set.
const (
	RSA       = "rsa"
	PinnedPSS = "rsa-ps256"
	P256      = "ec-256"
	P384      = "ec-384"
	P521      = "ec-521"
	Ed25519   = "ed25519"
	ForEnc    = "rsa-enc"  // published for encryption
	Weak      = "rsa-1024" // published, too short
	Gone      = "rotated-out"
	Foreign   = "foreign" // of another realm, under the name of ours
)

// Start runs an issuer until the test ends.
func Start(t *testing.T) *Issuer {
	t.Helper()
	i := &Issuer{Audience: "gpuaas-api", Now: time.Now, Keys: generated()} //nolint:forbidigo // a test's own wall clock
	i.Publish(
		i.Public(RSA, "", ""), i.Public(PinnedPSS, "PS256", "sig"), i.Public(P256, "ES256", "sig"), i.Public(P384, "", "sig"), i.Public(P521, "", ""),
		i.Public(Ed25519, "EdDSA", "sig"), i.Public(ForEnc, "RSA-OAEP", "enc"), i.Public(Weak, "RS256", "sig"),
		jose.JSONWebKey{Key: []byte("a shared secret that was published by mistake"), KeyID: "oct", Algorithm: "HS256"},
	)
	i.Server = httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(i.Close)
	return i
}

// The keys are generated once for all tests of a package, because RSA keys are slow to generate.
var generated = sync.OnceValue(func() map[string]crypto.Signer {
	keys := map[string]crypto.Signer{}
	for name, curve := range map[string]elliptic.Curve{P256: elliptic.P256(), P384: elliptic.P384(), P521: elliptic.P521()} {
		keys[name] = made(ecdsa.GenerateKey(curve, rand.Reader))
	}
	for name, bits := range map[string]int{RSA: 2048, PinnedPSS: 2048, Weak: 1024, Gone: 2048, Foreign: 2048} {
		keys[name] = made(rsa.GenerateKey(rand.Reader, bits))
	}
	keys[ForEnc] = keys[Gone]
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	keys[Ed25519] = made(ed, err)
	return keys
})

func made[K crypto.Signer](key K, err error) crypto.Signer {
	if err != nil {
		panic(err)
	}
	return key
}

// Public is a key as a key set shows it.
func (i *Issuer) Public(name, algorithm, use string) jose.JSONWebKey {
	return jose.JSONWebKey{Key: i.Keys[name].Public(), KeyID: name, Algorithm: algorithm, Use: use}
}

// Publish replaces the key set.
func (i *Issuer) Publish(keys ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.published = keys
}

// Break makes it answer nothing but errors.
func (i *Issuer) Break(broken bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.broken = broken
}

// Requests counts the requests for the keys.
func (i *Issuer) Requests() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.requests
}

func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if r.URL.Path == "/keys" {
		i.requests++
	}
	var body any = map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token",
	}
	switch {
	case i.broken:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case r.URL.Path == "/keys":
		body = jose.JSONWebKeySet{Keys: i.published}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(body)
}

// Object is a header or claims.
type Object map[string]any

// With returns it changed; a nil removes a member.
func (o Object) With(changes Object) Object {
	o = maps.Clone(o)
	for name, value := range changes {
		if o[name] = value; value == nil {
			delete(o, name)
		}
	}
	return o
}

// Header is that of a good access token.
func (*Issuer) Header(algorithm, key string) Object {
	return Object{"alg": algorithm, "kid": key, "typ": "at+jwt"}
}

// Claims are those of a good access token.
func (i *Issuer) Claims() Object {
	now := i.Now().Unix()
	return Object{
		"iss": i.URL, "sub": "subject-1", "aud": []string{"account", i.Audience}, "exp": now + 300, "iat": now - 5, "nbf": now - 5,
		"typ": "Bearer", "azp": "gpuaas-cli", "email": "dev@dev.localhost", "email_verified": true,
		"realm_access": Object{"roles": []string{"gpuaas-operator", "default"}},
	}
}

// B64 is base64url without padding.
func B64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// JSON is the text of a value.
func JSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Sign signs header and claims unchanged, with the given key and algorithm, even if they do not match.
func (i *Issuer) Sign(header, claims, algorithm, key string) string {
	input := B64([]byte(header)) + "." + B64([]byte(claims))
	return input + "." + B64(signature(i.Keys[key], algorithm, input))
}

// Token signs a good access token with changes.
func (i *Issuer) Token(algorithm, key string, header, claims Object) string {
	return i.Sign(JSON(i.Header(algorithm, key).With(header)), JSON(i.Claims().With(claims)), algorithm, key)
}

func digest(algorithm, input string) ([]byte, crypto.Hash) {
	var h hash.Hash
	kind := crypto.SHA256
	switch algorithm[2:] {
	case "384":
		h, kind = sha512.New384(), crypto.SHA384
	case "512":
		h, kind = sha512.New(), crypto.SHA512
	default:
		h = sha256.New()
	}
	h.Write([]byte(input))
	return h.Sum(nil), kind
}

func signature(key crypto.Signer, algorithm, input string) []byte {
	sum, kind := digest(algorithm, input)
	switch k := key.(type) {
	case ed25519.PrivateKey:
		return ed25519.Sign(k, []byte(input))
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, k, sum)
		if err != nil {
			panic(err)
		}
		return Pair(k.Curve, r, s)
	}
	var opts crypto.SignerOpts = kind
	if algorithm[:2] == "PS" {
		opts = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: kind}
	}
	out, err := key.Sign(rand.Reader, sum, opts)
	if err != nil {
		panic(err)
	}
	return out
}

// Pair is an ECDSA signature in JOSE's form.
func Pair(curve elliptic.Curve, r, s *big.Int) []byte {
	size := (curve.Params().BitSize + 7) / 8
	out := make([]byte, 2*size)
	r.FillBytes(out[:size])
	s.FillBytes(out[size:])
	return out
}

// HMAC signs with a secret.
func HMAC(header, claims string, secret []byte) string {
	input := B64([]byte(header)) + "." + B64([]byte(claims))
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(input))
	return input + "." + B64(h.Sum(nil))
}
