package jwt

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// Key is a public key with the algorithms that it verifies. They follow from what
// the key is, never from a token.
type Key struct {
	ID         string
	public     any
	algorithms []jose.SignatureAlgorithm
	print      [sha256.Size]byte
}

const (
	minRSABits = 2048 // NIST SP 800-131A
	maxRSABits = 8192 // a bigger one would let its owner spend our time
)

var rsaAlgorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512}

// NewKey reads a published key. It rejects keys that are not for signatures, too weak, private, or of an
// unsupported type.
func NewKey(j jose.JSONWebKey) (Key, error) {
	k := Key{ID: j.KeyID, public: j.Key, algorithms: algorithmsOf(j.Key)}
	if sum, err := j.Thumbprint(crypto.SHA256); err == nil {
		copy(k.print[:], sum)
	}
	switch {
	case k.ID == "" || len(k.ID) > maxKeyID:
		return Key{}, fmt.Errorf("a key needs a name of 1 to %d bytes", maxKeyID)
	case j.Use != "" && j.Use != "sig":
		return Key{}, fmt.Errorf("key %q is for %q", k.ID, j.Use)
	case len(k.algorithms) == 0 || !j.Valid():
		return Key{}, fmt.Errorf("key %q is of no kind that is accepted", k.ID)
	case j.Algorithm == "":
		return k, nil
	}
	pinned := jose.SignatureAlgorithm(j.Algorithm)
	if !k.takes(pinned) {
		return Key{}, fmt.Errorf("key %q cannot be for %s", k.ID, j.Algorithm)
	}
	k.algorithms = []jose.SignatureAlgorithm{pinned}
	return k, nil
}

func algorithmsOf(public any) []jose.SignatureAlgorithm {
	switch key := public.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits >= minRSABits && bits <= maxRSABits {
			return rsaAlgorithms
		}
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return []jose.SignatureAlgorithm{jose.ES256}
		case elliptic.P384():
			return []jose.SignatureAlgorithm{jose.ES384}
		case elliptic.P521():
			return []jose.SignatureAlgorithm{jose.ES512}
		}
	case ed25519.PublicKey:
		return []jose.SignatureAlgorithm{jose.EdDSA}
	}
	return nil
}

func (k Key) takes(a jose.SignatureAlgorithm) bool { return slices.Contains(k.algorithms, a) }

// String is the same only for the same key with the same uses.
func (k Key) String() string { return fmt.Sprint(k.ID, k.algorithms, k.print) }
