package secret

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/envelope"
	"github.com/gpuaas/gpuaas/internal/pki"
)

// Authority issues certificates for nodes and the node API. Its drivers are stored keys (pki.Local),
// Vault's PKI and step-ca.
type Authority interface {
	// Issue certifies the key of csr for the client named uri, and nothing else that csr requests.
	// Unavailable means that a later attempt may succeed.
	Issue(ctx context.Context, csr []byte, uri *url.URL, ttl time.Duration) (pki.Certificate, error)
	// Server makes a key and certificate for a listener. The chain ends with a root that peers trust
	// through the bundle or its fingerprint.
	Server(ctx context.Context, hosts []string, ttl time.Duration) (tls.Certificate, error)
	// Revoke adds a serial to the authority's own list. The node API does not depend on it: it checks
	// Certificates.
	Revoke(ctx context.Context, serial string) error
	// Issuer names the key that Issue signs with now, as pki.Certificate does. It is empty if the
	// authority chooses the key itself.
	Issuer() string
	Roots
	// Refresh notices a roll-over that was begun or ended elsewhere.
	Refresh(ctx context.Context) error
}

// Roots are the certificates that peers trust.
type Roots interface {
	// Bundle returns the roots in PEM. It contains two during a rotation.
	Bundle() []byte
	// Pool is Bundle for crypto/tls: another pool only when the bundle is another.
	Pool() *x509.CertPool
}

// Wrapper seals the stored keys with a key-encryption key, which is not in the database. Its drivers are a
// file and Vault's transit. A process opens each stored key once, so that no request waits for it.
type Wrapper interface {
	// Active names the key that seals now.
	Active() string
	Seal(ctx context.Context, key []byte, at envelope.Place) ([]byte, error)
	// Open returns decryption_failed for what it has not sealed, or for another place.
	Open(ctx context.Context, sealed []byte, at envelope.Place) ([]byte, error)
	// Refresh notices a rotation that was begun or ended elsewhere.
	Refresh(ctx context.Context) error
	// A rotation seals all stored keys again between its Begin and its Finish. The newest key seals.
	Rotator
}

// Signer signs tasks or statements, Ed25519. Its drivers are stored keys and, for tasks, Vault's transit.
type Signer interface {
	// Active is the key that signs now.
	Active() (kid string)
	Sign(ctx context.Context, kid string, body []byte) (signature []byte, err error)
	// Public returns every key that nodes accept, by kid. There are two during a rotation.
	Public() map[string][]byte
	Refresh(ctx context.Context) error
}

// UserCA signs SSH logins. It never receives a user's private key.
type UserCA interface {
	Sign(ctx context.Context, l Login) (LoginCertificate, error)
	// Public lists the authorities that sshd on the nodes may accept, as authorized_keys lines.
	Public() []string
	Refresh(ctx context.Context) error
}

// Rotator is a driver whose keys this server rotates. Between Begin and Finish the old and the new key
// are both accepted, afterwards only the new one.
type Rotator interface {
	Begin(ctx context.Context) error
	Finish(ctx context.Context) error
}

// Login is the right to open sessions as one allocation for a short time.
type Login struct {
	Key        ssh.PublicKey
	Allocation string // becomes the only principal
	User       string // for the log on the node
	TTL        time.Duration
	PTY        bool
}

// LoginCertificate is the signed certificate of a Login.
type LoginCertificate struct {
	Text     string // one line, as ssh reads it from a file
	Serial   uint64
	KeyID    string
	NotAfter time.Time
}

// MaxLogin is the maximum lifetime of a login certificate. A policy can only shorten it.
const MaxLogin = 5 * time.Minute
