package mail

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/errs"
)

// UnsubscribePath is the page that ends e-mails.
const UnsubscribePath = "/notifications/unsubscribe"

// Link is the right to end the e-mails of some kinds to one user. Its token is signed with a key of the user, for one address.
// Another key, and another address, end it.
type Link struct {
	User  uuid.UUID
	Kinds []string

	mac []byte
}

const (
	maxToken = 1 << 10
	keySize  = 32
)

// NewKey draws a key.
func NewKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // it never fails
	return key
}

// Token signs the link.
func (l Link) Token(key []byte, address string) string {
	body := l.body()
	return base64.RawURLEncoding.EncodeToString(append(body, sign(key, body, address)...))
}

func (l Link) body() []byte { return append(bytes.Clone(l.User[:]), strings.Join(l.Kinds, ",")...) }

// sign binds the body to the address. Their lengths cannot shift, because a zero byte separates them.
func sign(key, body []byte, address string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	mac.Write([]byte{0})
	mac.Write([]byte(strings.ToLower(address)))
	return mac.Sum(nil)
}

// ParseLink reads a token. Valid checks its signature, with the key of the user.
func ParseLink(token string) (l Link, err error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(token) > maxToken || len(raw) < len(l.User)+1+sha256.Size {
		return Link{}, errs.Invalid("token", "is not complete").Try("open the link of the e-mail again, or change your preferences in the portal")
	}
	body, mac := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	copy(l.User[:], body)
	l.Kinds, l.mac = strings.Split(string(body[len(l.User):]), ","), mac
	return l, nil
}

// Valid reports whether the key has signed the link for the address.
func (l Link) Valid(key []byte, address string) bool {
	return len(key) == keySize && hmac.Equal(l.mac, sign(key, l.body(), address))
}
