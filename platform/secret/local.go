package secret

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pki"
)

// LocalSigner signs with keys of a store. The oldest signs: nodes hear of a new one before they see
// anything signed by it.
type LocalSigner struct{ Keys *pki.Keyring }

// OpenSigner opens the keys in dir, or makes the first.
func OpenSigner(dir string) (LocalSigner, error) {
	keys, err := pki.OpenAnnounced(dir)
	return LocalSigner{keys}, err
}

// Active is the key that signs now.
func (s LocalSigner) Active() string { return s.Keys.Active() }

// Sign signs body.
func (s LocalSigner) Sign(_ context.Context, kid string, body []byte) ([]byte, error) {
	return s.Keys.Sign(kid, body)
}

// Public returns every key that nodes accept.
func (s LocalSigner) Public() map[string][]byte { return s.Keys.Public() }

// Refresh reads the keys again.
func (s LocalSigner) Refresh(ctx context.Context) error { return s.Keys.Refresh(ctx) }

// Begin makes a key that nodes hear of and nothing is signed by yet.
func (s LocalSigner) Begin(ctx context.Context) error { return begin(ctx, s.Keys) }

// Finish removes the older key: only the newer key signs and is accepted.
func (s LocalSigner) Finish(ctx context.Context) error { return finish(ctx, s.Keys) }

func begin(ctx context.Context, keys *pki.Keyring) error {
	if err := keys.Refresh(ctx); err != nil {
		return err
	}
	if len(keys.Kids()) > 1 {
		return errs.New(errs.Conflict, "a roll-over is under way").Try("end it first")
	}
	_, err := keys.Rotate(ctx)
	return err
}

func finish(ctx context.Context, keys *pki.Keyring) error {
	kids := keys.Kids()
	for _, kid := range kids[:len(kids)-1] {
		if err := keys.Retire(ctx, kid); err != nil {
			return err
		}
	}
	return nil
}

// LocalUserCA signs logins with keys of a store, the oldest as well.
type LocalUserCA struct {
	Keys  *pki.Keyring
	Clock clock.Clock
}

// OpenUserCA opens the keys in dir, or makes the first.
func OpenUserCA(dir string, c clock.Clock) (LocalUserCA, error) {
	keys, err := pki.OpenAnnounced(dir)
	return LocalUserCA{keys, c}, err
}

// early tolerates a node whose clock is behind.
const early = time.Minute

// Sign certifies a user's key for one allocation. The certificate permits a terminal only if PTY is set, and no agent or user
// rc file. It permits forwarding, for which sshd has the rule of the account.
func (u LocalUserCA) Sign(_ context.Context, l Login) (LoginCertificate, error) {
	if err := l.check(); err != nil {
		return LoginCertificate{}, err
	}
	kid := u.Keys.Active()
	signer, err := ssh.NewSignerFromSigner(u.Keys.Signer(kid))
	if err != nil {
		return LoginCertificate{}, fmt.Errorf("reading the user authority: %w", err)
	}
	now := u.Clock.Now()
	c := &ssh.Certificate{
		Key: l.Key, Serial: serial(), CertType: ssh.UserCert, KeyId: "user=" + l.User + " allocation=" + l.Allocation,
		ValidPrincipals: []string{l.Allocation},
		ValidAfter:      uint64(now.Add(-early).Unix()), ValidBefore: uint64(now.Add(l.TTL).Unix()), //nolint:gosec // after 1970
		Permissions: ssh.Permissions{Extensions: map[string]string{"permit-port-forwarding": ""}},
	}
	if l.PTY {
		c.Extensions["permit-pty"] = ""
	}
	if err := c.SignCert(rand.Reader, signer); err != nil {
		return LoginCertificate{}, fmt.Errorf("signing a login: %w", err)
	}
	text := strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(c)), "\n")
	return LoginCertificate{Text: text, Serial: c.Serial, KeyID: c.KeyId, NotAfter: now.Add(l.TTL).Truncate(time.Second)}, nil
}

// Public lists the authorities that sshd on the nodes may accept.
func (u LocalUserCA) Public() []string {
	public := u.Keys.Public()
	list := make([]ed25519.PublicKey, 0, len(public))
	for _, kid := range u.Keys.Kids() {
		list = append(list, public[kid])
	}
	return authorities(list)
}

// Refresh reads the keys again.
func (u LocalUserCA) Refresh(ctx context.Context) error { return u.Keys.Refresh(ctx) }

// Begin creates a key that is sent to nodes and signs no login yet.
func (u LocalUserCA) Begin(ctx context.Context) error { return begin(ctx, u.Keys) }

// Finish ends the older key.
func (u LocalUserCA) Finish(ctx context.Context) error { return finish(ctx, u.Keys) }

// serial is random: it reveals nothing and needs no counter. sshd treats zero as no serial.
func serial() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails
		if n := binary.BigEndian.Uint64(b[:]); n != 0 {
			return n
		}
	}
}

// minRSA is the shortest RSA key that may log in.
const minRSA = 3072

// check rejects a login with an unsupported or short key, a long TTL, or a name that is unsafe in a
// principal or a log line.
func (l Login) check() error {
	switch {
	case l.Key == nil:
		return errs.New(errs.SSHKeyInvalid, "no public key was given")
	case l.TTL <= 0 || l.TTL > MaxLogin:
		return errs.Invalid("ttl", "a login certificate is valid for at most %s", MaxLogin)
	case !plain(l.Allocation) || !plain(l.User):
		return errs.Invalid("allocation", "a login names one allocation and one user")
	}
	if _, ok := l.Key.(*ssh.Certificate); ok {
		return errs.New(errs.SSHKeyInvalid, "this is a certificate, not a public key")
	}
	if !slices.Contains([]string{
		ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519, ssh.KeyAlgoRSA,
		ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKECDSA256,
	}, l.Key.Type()) {
		return errs.New(errs.SSHKeyInvalid, "keys of type %s are not accepted", l.Key.Type()).Try("create one with ssh-keygen -t ed25519")
	}
	if c, ok := l.Key.(ssh.CryptoPublicKey); ok {
		switch k := c.CryptoPublicKey().(type) {
		case *rsa.PublicKey:
			if k.N.BitLen() < minRSA {
				return errs.New(errs.SSHKeyInvalid, "an RSA key of %d bits is too short, %d are needed", k.N.BitLen(), minRSA).Try("create one with ssh-keygen -t ed25519")
			}
		case *ecdsa.PublicKey, ed25519.PublicKey:
		}
	}
	return nil
}

// plain reports whether a name can be part of a principal and of a log line.
func plain(name string) bool {
	return name != "" && len(name) <= 128 && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || r == ',' || r == '"'
	})
}
