package secret

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/url"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/pki"
)

// Authority certifies nodes and the node door. Its drivers are files
// (pki.Local), Vault's PKI and step-ca.
type Authority interface {
	// Issue certifies the key behind csr as the client named uri, and nothing else
	// that csr asks for. Unavailable means that it may work later.
	Issue(ctx context.Context, csr []byte, uri *url.URL, ttl time.Duration) (pki.Certificate, error)
	// Server makes a key and certificate for a listener. The chain ends with what
	// those who know the bundle, or its fingerprint, believe.
	Server(ctx context.Context, hosts []string, ttl time.Duration) (tls.Certificate, error)
	// Revoke tells the authority's own list. The node door does not wait for it: it
	// asks Certificates.
	Revoke(ctx context.Context, serial string) error
	// Bundle is what peers should believe, in PEM; two roots during a roll-over.
	Bundle() []byte
	// Pool is Bundle for crypto/tls: another pool only when the bundle is another.
	Pool() *x509.CertPool
	// Refresh notices a roll-over that was begun or ended elsewhere.
	Refresh(ctx context.Context) error
}

// Signer signs tasks, Ed25519. Its drivers are files and Vault's transit.
type Signer interface {
	// Active is the key that signs now.
	Active() (kid string)
	Sign(ctx context.Context, kid string, body []byte) (signature []byte, err error)
	// Public is every key that is believed, by kid; two during a roll-over.
	Public() map[string][]byte
	Refresh(ctx context.Context) error
}

// UserCA signs logins over SSH. A user's private key never comes near it.
type UserCA interface {
	Sign(ctx context.Context, l Login) (LoginCertificate, error)
	// Public lists the authorities that hosts may believe, as authorized_keys lines.
	Public() []string
	Refresh(ctx context.Context) error
}

// Rotator is a driver whose keys are rolled over from here. Between Begin and
// Finish the old and the new are both believed; then only the new.
type Rotator interface {
	Begin(ctx context.Context) error
	Finish(ctx context.Context) error
}

// Login is what a certificate lets its holder do: open sessions as one
// allocation, for a short while.
type Login struct {
	Key        ssh.PublicKey
	Allocation string // becomes the only principal
	User       string // for the host's log
	TTL        time.Duration
	PTY        bool
}

// LoginCertificate is what a Login became.
type LoginCertificate struct {
	Text     string // one line, as ssh reads it from a file
	Serial   uint64
	KeyID    string
	NotAfter time.Time
}

// MaxLogin is how long a login certificate lives at most, whatever a policy says.
const MaxLogin = 5 * time.Minute
