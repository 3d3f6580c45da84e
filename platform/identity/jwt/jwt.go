// Package jwt reads signed tokens in one strict form and verifies them with a key
// that says itself which algorithms it is for. It fetches no key and knows no
// person. What a token says about how to verify it is never followed.
package jwt

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/gpuaas/gpuaas/internal/errs"
)

const (
	// MaxSize bounds a token: what one with hundreds of roles takes.
	MaxSize = 16 << 10
	// A key's name is a UUID or a thumbprint; longer ones are attacks on a look-up.
	maxKeyID = 256
)

// Token is a token in its strict form. Until Verify has said so, nothing of it is true.
type Token struct {
	raw            string
	Header, Claims Object
}

// foreign are members of a header that would let the token choose its key, or
// mean that it is not what it seems.
var foreign = []string{"jwk", "jku", "x5u", "x5c", "crit", "b64", "cty", "zip", "enc", "epk", "apu", "apv", "p2s", "p2c"}

// Parse reads the compact form.
func Parse(raw string) (Token, error) {
	t := Token{raw: raw}
	if len(raw) > MaxSize {
		return t, Refuse("it is longer than %d bytes", MaxSize)
	}
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return t, Refuse("it has %d parts", len(parts))
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		// The decoder skips line breaks, even when it is strict.
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil || part == "" || strings.ContainsAny(part, "\r\n") {
			return t, Refuse("part %d is not base64url", i+1)
		}
	}
	var err error
	if t.Header, err = decode(decoded[0]); err != nil {
		return t, Refuse("the header %w", err)
	}
	for _, name := range foreign {
		if t.Header.Has(name) {
			return t, Refuse("the header has %s", name)
		}
	}
	if t.Claims, err = decode(decoded[1]); err != nil {
		return t, Refuse("the claims: %w", err)
	}
	return t, nil
}

// KeyID names the key that the token says it was signed with.
func (t Token) KeyID() string {
	kid := t.Header.Text("kid")
	if len(kid) > maxKeyID {
		return ""
	}
	return kid
}

// Verify checks the signature. The algorithm must be one of the key's own.
func (t Token) Verify(k Key) error {
	algorithm := jose.SignatureAlgorithm(t.Header.Text("alg"))
	if !k.takes(algorithm) {
		return Refuse("algorithm %q is not for key %q", algorithm, k.ID)
	}
	signed, err := jose.ParseSignedCompact(t.raw, []jose.SignatureAlgorithm{algorithm})
	if err != nil {
		return Refuse("reading the signature: %w", err)
	}
	if _, err := signed.Verify(k.public); err != nil {
		return Refuse("verifying the signature: %w", err)
	}
	return nil
}

// Refuse makes the error of a token that is not believed. Why is for the log:
// whoever forges one learns nothing.
func Refuse(format string, args ...any) error {
	return errs.New(errs.TokenInvalid, "the token is not valid").Try("sign in again, or make a new key").
		Because(fmt.Errorf(format, args...))
}
