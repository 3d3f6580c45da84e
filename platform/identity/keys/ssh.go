package keys

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/crypto/ssh"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// SSHKey is a registered public key.
type SSHKey struct {
	ID          ids.SSHKey
	Name        string
	PublicKey   string // one authorized_keys line, without options or comment
	Fingerprint string // SHA256:…
	CreatedAt   time.Time
}

const (
	maxKeyText    = 16 << 10 // an RSA key of 16,384 bits has 3 KB
	minRSABits    = 2048
	privateMarker = "PRIVATE KEY"
)

func sshKey(c identity.Caller, id ids.SSHKey) identity.Resource {
	return identity.Resource{Tenant: c.Tenant, Kind: "ssh-key", ID: id.String()}
}

func scanSSHKey(row pgx.CollectableRow) (k SSHKey, err error) {
	err = row.Scan(&k.ID, &k.Name, &k.PublicKey, &k.Fingerprint, &k.CreatedAt)
	return k, err
}

// AddSSHKey registers a public key of the caller.
func (s *Service) AddSSHKey(ctx context.Context, ch identity.Change[SSHKey], name, publicKey string) (SSHKey, error) {
	line, fingerprint, err := parsePublicKey(publicKey)
	if err != nil {
		return SSHKey{}, err
	}
	if name, err = identity.CheckText("name", name, 1, identity.MaxName); err != nil {
		return SSHKey{}, err
	}
	if err := s.Recent(ch.Caller); err != nil {
		return SSHKey{}, err
	}
	if !ch.Caller.KeyEnd.IsZero() {
		return SSHKey{}, errs.New(errs.Forbidden, "an SSH key has no end, and the credential of this request ends").
			Try("sign in, or use a key or a credential without an end")
	}
	return ch.ApplyWith(ctx, s.Service, func() (SSHKey, func(*pgx.Batch), error) {
		k := SSHKey{ID: ids.New[ids.SSHKey](), Name: name, PublicKey: line, Fingerprint: fingerprint, CreatedAt: s.Now()}
		made := sshMaker(ch.Caller)
		return k, func(b *pgx.Batch) {
			identity.QueueLockPrincipal(b, ch.Caller) // an allocation that is being made has read the keys
			b.Queue(selectEndedMaker, made).Exec(identity.Unless(errs.New(errs.TokenInvalid, "the credential of this request was revoked")))
			b.Queue(insertSSHKey, k.ID, ch.Caller.Principal(), k.Name, k.PublicKey, k.Fingerprint, k.CreatedAt, made).Exec(pg.OrElse(
				errs.New(errs.AlreadyExists, "you already have a key of this name or fingerprint").At("name").
					With("fingerprint", k.Fingerprint)))
			s.Note(b, ch.Caller, "ssh_key.create", sshKey(ch.Caller, k.ID), nil, audit.Fields{"name": k.Name, "fingerprint": k.Fingerprint})
		}, nil
	}, s.rekey(ctx, ch.Caller))
}

// sshMaker is the key or the credential that adds an SSH key, or nil for a session. The SSH key ends with it.
func sshMaker(c identity.Caller) *uuid.UUID {
	switch {
	case c.Key != (ids.APIKey{}):
		return &c.Key.UUID
	case c.Credential != (ids.Credential{}):
		return &c.Credential.UUID
	}
	return nil
}

// rekey has the principal's allocations follow a change of its keys.
func (s *Service) rekey(ctx context.Context, c identity.Caller) func(pgx.Tx) error {
	if s.Jobs == nil {
		return nil
	}
	return func(tx pgx.Tx) error { return s.Rekey(ctx, tx, c.Principal()) }
}

// Rekey makes the principal's allocations follow a change of its keys or rights.
func (s *Service) Rekey(ctx context.Context, tx pgx.Tx, principal uuid.UUID) error {
	if _, err := s.Jobs.InsertTx(ctx, tx, RekeyAllocations{Principal: principal}, nil); err != nil {
		return fmt.Errorf("asking for other keys in allocations: %w", err)
	}
	return nil
}

// parsePublicKey returns the key's canonical line and fingerprint. The line is written to
// authorized_keys on a node, so it must contain nothing but the key.
func parsePublicKey(text string) (line, fingerprint string, err error) {
	refuse := func(format string, args ...any) (string, string, error) {
		return "", "", errs.New(errs.SSHKeyInvalid, format, args...).At("public_key")
	}
	text = strings.TrimSpace(text)
	switch {
	case len(text) > maxKeyText:
		return refuse("longer than %d bytes", maxKeyText)
	case strings.Contains(text, privateMarker):
		return refuse("this is a private key, which must stay on the local machine; send the .pub file, and replace the pair if the key was shared")
	case strings.ContainsAny(text, "\r\n"):
		return refuse("must be one line with one key")
	}
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(text))
	switch {
	case err != nil:
		return refuse("not a public key in OpenSSH form (ssh-ed25519 AAAA…)")
	case len(options) > 0:
		return refuse("options are not accepted: remove the text before the key type")
	case len(rest) > 0:
		return refuse("must be one line with one key")
	}
	if err := strong(key); err != nil {
		return "", "", err
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))), ssh.FingerprintSHA256(key), nil
}

// strong lists the accepted key types. A type that a newer version of the library supports is rejected
// until it is added here.
func strong(key ssh.PublicKey) error {
	switch key.Type() {
	case ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521,
		ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256:
		return nil
	case ssh.KeyAlgoRSA:
		holder, ok := key.(ssh.CryptoPublicKey)
		if !ok {
			break
		}
		public, ok := holder.CryptoPublicKey().(*rsa.PublicKey)
		if ok && public.N.BitLen() >= minRSABits {
			return nil
		}
		return errs.New(errs.SSHKeyInvalid, "an RSA key needs %d bits or more", minRSABits).At("public_key").
			Try("ssh-keygen -t ed25519")
	}
	return errs.New(errs.SSHKeyInvalid, "keys of type %s are not accepted", key.Type()).At("public_key").
		Try("ssh-keygen -t ed25519")
}

// SSHKeys lists the caller's keys by id, after the given one.
func (s *Service) SSHKeys(ctx context.Context, c identity.Caller, after ids.SSHKey, limit int) ([]SSHKey, error) {
	return pg.List(ctx, s.DB, "SSH keys", selectSSHKeys, scanSSHKey, c.Principal(), after, limit)
}

// DeleteSSHKey removes a key of the caller, also from the allocations that it
// opens.
func (s *Service) DeleteSSHKey(ctx context.Context, ch identity.Change[struct{}], id ids.SSHKey) error {
	_, err := ch.ApplyWith(ctx, s.Service, func() (none struct{}, _ func(*pgx.Batch), _ error) {
		k, err := pg.One(ctx, s.DB, "SSH key", selectSSHKey, scanSSHKey, ch.Caller.Principal(), id)
		return none, func(b *pgx.Batch) {
			identity.QueueLockPrincipal(b, ch.Caller)
			b.Queue(deleteSSHKey, ch.Caller.Principal(), id).Exec(pg.OrElse(identity.ErrRaced))
			s.Note(b, ch.Caller, "ssh_key.delete", sshKey(ch.Caller, id), audit.Fields{"name": k.Name, "fingerprint": k.Fingerprint}, nil)
		}, err
	}, s.rekey(ctx, ch.Caller))
	return err
}

// AuthorizedKeys returns authorized_keys lines of the caller: of the named keys, sorted by id, or of all keys if
// none is named. A key of another principal is not found.
func AuthorizedKeys(ctx context.Context, q pg.Queryer, c identity.Caller, named []ids.SSHKey) ([]string, error) {
	asked := map[uuid.UUID]bool{}
	for _, id := range named {
		asked[id.UUID] = true
	}
	list := make([]uuid.UUID, 0, len(asked))
	for id := range asked {
		list = append(list, id)
	}
	rows, err := q.Query(ctx, selectKeyLines, c.Principal(), list, len(list) == 0)
	if err != nil {
		return nil, fmt.Errorf("reading SSH keys: %w", err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading SSH keys: %w", err)
	}
	if len(lines) < len(list) {
		return nil, errs.New(errs.NotFound, "no such SSH key").At("ssh_key_ids")
	}
	return lines, nil
}

// ErrChanged means that the SSH keys have changed since they were read.
var ErrChanged = errors.New("the SSH keys were changed meanwhile")

// QueueAuthorizedKeys fails the caller's transaction with ErrChanged unless AuthorizedKeys would still
// return lines. Queue it behind identity.QueueLock: a key that is deleted afterwards finds what was made
// with it.
func QueueAuthorizedKeys(b *pgx.Batch, c identity.Caller, named []ids.SSHKey, lines []string) {
	list := make([]uuid.UUID, 0, len(named))
	for _, id := range named {
		list = append(list, id.UUID)
	}
	b.Queue(selectKeyLines, c.Principal(), list, len(list) == 0).Query(func(rows pgx.Rows) error {
		now, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("reading SSH keys: %w", err)
		}
		if !slices.Equal(now, lines) {
			return ErrChanged
		}
		return nil
	})
}
