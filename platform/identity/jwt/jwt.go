// Package jwt parses signed tokens in one strict form and verifies them with a key that defines its own
// algorithms. It fetches no key and knows no user. It ignores everything in a token that would select
// how to verify it.
package jwt

import (
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/gpuaas/gpuaas/internal/errs"
)

const (
	// MaxSize is the size of a token with hundreds of roles.
	MaxSize = 16 << 10
	// A key's name is a UUID or a thumbprint; longer ones are attacks on a look-up.
	maxKeyID = 256
)

// Token is a parsed token. Its content is untrusted until Verify has succeeded.
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
		return t, Reject("it is longer than %d bytes", MaxSize)
	}
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return t, Reject("it has %d parts", len(parts))
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		// The decoder skips line breaks, even when it is strict.
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(part); err != nil || part == "" || strings.ContainsAny(part, "\r\n") {
			return t, Reject("part %d is not base64url", i+1)
		}
	}
	var err error
	if t.Header, err = decode(decoded[0]); err != nil {
		return t, Reject("the header %w", err)
	}
	for _, name := range foreign {
		if t.Header.Has(name) {
			return t, Reject("the header has %s", name)
		}
	}
	if t.Claims, err = decode(decoded[1]); err != nil {
		return t, Reject("the claims: %w", err)
	}
	return t, nil
}

// KeyID returns the key id in the token's header.
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
		return Reject("algorithm %q is not for key %q", algorithm, k.ID)
	}
	signed, err := jose.ParseSignedCompact(t.raw, []jose.SignatureAlgorithm{algorithm})
	if err != nil {
		return Reject("reading the signature: %w", err)
	}
	if _, err := signed.Verify(k.public); err != nil {
		return Reject("verifying the signature: %w", err)
	}
	return nil
}

// Reject returns the error for an invalid token. The reason goes to the log only, so that an attacker
// learns nothing from the response.
func Reject(format string, args ...any) error {
	return errs.New(errs.TokenInvalid, "the token is not valid").Try("sign in again, or make a new key").
		Because(fmt.Errorf(format, args...))
}
