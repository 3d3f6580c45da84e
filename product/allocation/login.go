package allocation

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Login is a way into one allocation for some minutes.
type Login struct {
	Certificate string // one line, as in a -cert.pub file
	Serial      uint64
	ExpiresAt   time.Time
	Host        string
	Port        int
	User        string // the account on the node
	Simulated   bool   // no SSH service listens at the address
	HostKeys    []string
}

// Signs creates a certificate with which the key's owner logs in to one allocation. The log on the node
// contains the user.
type Signs func(ctx context.Context, key ssh.PublicKey, id ids.Allocation, user string, ttl time.Duration) (Login, error)

const (
	sshPort = 22
	maxKey  = 16 << 10 // an RSA key of 16,384 bits has 3 KB
)

// Login signs the caller's public key for an active allocation. The certificate is made before the
// transaction, because the authority may be slow. If the audit row cannot be written, the certificate is
// not returned.
func (s *Service) Login(ctx context.Context, ch identity.Change[Login], id ids.Allocation, publicKey string) (Login, error) {
	key, err := loginKey(publicKey)
	if err != nil {
		return Login{}, err
	}
	a, err := s.Get(ctx, ch.Caller, id)
	switch {
	case err != nil:
		return Login{}, err
	case a.State != Active:
		return Login{}, errs.New(errs.AllocationNotActive, "the allocation is %s and accepts no logins", a.State).Try("wait until it is active")
	case s.Signs == nil:
		return Login{}, errs.New(errs.Unavailable, "this server signs no logins").Try("log in with a registered SSH key")
	}
	server, err := s.Inventory.SSHOf(ctx, a.Node)
	if err != nil {
		return Login{}, err
	}
	l, err := s.Signs(ctx, key, a.ID, ch.Caller.Principal().String(), s.LoginLife())
	if err != nil {
		return Login{}, fmt.Errorf("signing a login for %s: %w", a.ID, err)
	}
	l.Host, l.Port = hostAndPort(server.Address)
	l.User, l.Simulated, l.HostKeys = a.Login, server.Simulated, server.HostKeys
	b := &pgx.Batch{}
	s.Identity.QueueKey(b, ch.Key, loginReply(ch, l))
	s.queueCertificate(b, ch.Caller, l, a.ID)
	audit.Queue(b, audit.Entry{
		Tenant: a.Tenant, By: ch.Caller.Cause(), Action: "allocation.ssh_certificate", Target: a.URN(s.Naming),
		After: map[string]any{"serial": strconv.FormatUint(l.Serial, 10), "fingerprint": ssh.FingerprintSHA256(key), "expires_at": l.ExpiresAt},
	})
	if err := pg.Commit(ctx, s.DB, b, func() {}); err != nil {
		return Login{}, err
	}
	return l, nil
}

func loginKey(text string) (ssh.PublicKey, error) {
	if len(text) > maxKey {
		return nil, errs.New(errs.SSHKeyInvalid, "the key is too long").At("public_key")
	}
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(text))
	if _, signed := key.(*ssh.Certificate); err != nil || signed || len(options) > 0 || len(rest) > 0 {
		return nil, errs.New(errs.SSHKeyInvalid, "this is not one public key").At("public_key").Try("send the one line of a .pub file")
	}
	return key, nil
}

// hostAndPort splits an address that may have no port.
func hostAndPort(address string) (string, int) {
	if host, text, err := net.SplitHostPort(address); err == nil {
		if port, err := strconv.Atoi(text); err == nil {
			return host, port
		}
	}
	return address, sshPort
}

func loginReply(ch identity.Change[Login], l Login) identity.Reply {
	if ch.Answer == nil {
		return identity.Reply{}
	}
	return ch.Answer(l)
}
