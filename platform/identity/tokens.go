package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// The prefix of a token names its type.
const (
	KeyPrefix        = "gpk_" // an API key
	SessionPrefix    = "gpb_" // a session
	CredentialPrefix = "gps_" // a credential of a service account
	LinkPrefix       = "gpa_" // a sign-in code of an administrator

	// TokenLength is 4 characters and 256 bits in base64url. A longer token of these types is rejected
	// without a query.
	TokenLength = 4 + 43
)

// NewToken returns a secret and what is stored of it. 256 random bits cannot be guessed, so a fast hash
// is enough.
func NewToken(prefix string) (token string, hash [32]byte) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails: it ends the process instead
	token = prefix + base64.RawURLEncoding.EncodeToString(secret)
	return token, sha256.Sum256([]byte(token))
}
