package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/revocation"
)

// Credential is one secret of a service account, or the jobs of a forge that need none.
type Credential struct {
	ID                               ids.Credential
	CreatedAt                        time.Time
	ExpiresAt, RevokedAt, LastUsedAt *time.Time
	Secret                           string // only when it was just made
	Federation                       *Federation
}

// NewCredential contains the properties of a new credential. A TTL of zero means no expiry.
type NewCredential struct {
	TTL        time.Duration
	Federation *Federation // nil: a credential with a secret
}

// inForce is the number of credentials that an account may have: the current one and its successor
// during a rotation.
const inForce = 2

// federated is the number of credentials without a secret that an account may have: one for each
// repository and ref.
const federated = 20

func scanCredential(row pgx.CollectableRow) (c Credential, err error) {
	var f Federation
	err = row.Scan(&c.ID, &c.CreatedAt, &c.ExpiresAt, &c.RevokedAt, &c.LastUsedAt, &f.Issuer, &f.Subject)
	if f.Issuer != "" {
		c.Federation = &f
	}
	return c, err
}

func (a ServiceAccount) credential(id ids.Credential) identity.Resource {
	return identity.Resource{Tenant: a.Tenant, Project: a.Project, Kind: "credential", ID: id.String()}
}

// Credentials lists those of an account by id, ended ones too, without their
// secrets.
func (s *Service) Credentials(ctx context.Context, c identity.Caller, account ids.ServiceAccount, after ids.Credential, limit int) ([]Credential, error) {
	if _, err := s.ServiceAccountByID(ctx, c, account); err != nil {
		return nil, err
	}
	return pg.List(ctx, s.DB, "credentials", selectCredentials, scanCredential, account, after, limit)
}

// CreateCredential creates a credential. Its secret is displayed once.
func (s *Service) CreateCredential(ctx context.Context, ch identity.Change[Credential], account ids.ServiceAccount, n NewCredential) (Credential, error) {
	if n.Federation != nil {
		if err := n.Federation.check(s.JobIssuers); err != nil {
			return Credential{}, err
		}
	}
	return ch.Apply(ctx, s.Service, func() (Credential, func(*pgx.Batch), error) {
		a, err := s.ServiceAccountByID(ctx, ch.Caller, account)
		if err != nil {
			return Credential{}, nil, err
		}
		if err := s.Recent(ch.Caller); err != nil {
			return Credential{}, nil, err
		}
		if _, err := checkScopes(ch.Caller, a.Scopes); err != nil {
			return Credential{}, nil, err
		}
		c := Credential{ID: ids.New[ids.Credential](), CreatedAt: s.Now(), Federation: n.Federation}
		if c.ExpiresAt, err = until(c.CreatedAt, n.TTL); err == nil {
			c.ExpiresAt, err = ch.Caller.Within(c.ExpiresAt)
		}
		if err != nil {
			return Credential{}, nil, err
		}
		var secret []byte
		of, most, fields := Federation{}, inForce, audit.Fields{"service_account": a.ID.String(), "expires_at": c.ExpiresAt}
		if c.Federation != nil {
			of, most = *c.Federation, federated
			fields["issuer"], fields["subject"] = of.Issuer, of.Subject
		} else {
			var hash [32]byte
			c.Secret, hash = identity.NewToken(identity.CredentialPrefix)
			secret = hash[:]
		}
		return c, func(b *pgx.Batch) {
			queueAccount(b, a)
			b.Queue(countCredentials, a.ID, secret == nil).QueryRow(fewerThan(most))
			b.Queue(insertCredential, c.ID, a.ID, a.Tenant, secret, c.CreatedAt, c.ExpiresAt, of.Issuer, of.Subject, maker(ch.Caller))
			s.Note(b, ch.Caller, "credential.create", a.credential(c.ID), nil, fields)
		}, nil
	})
}

// queueAccount locks the account in the version that was read, so that it is neither deleted nor given
// scopes beyond the caller's.
func queueAccount(b *pgx.Batch, a ServiceAccount) {
	b.Queue(lockAccountVersion, a.ID, a.Version).Exec(pg.OrElse(identity.ErrRaced))
}

// fewerThan rejects a credential that exceeds the limit of its form.
func fewerThan(most int) func(pgx.Row) error {
	return func(row pgx.Row) error {
		var have int
		if err := row.Scan(&have); err != nil {
			return fmt.Errorf("counting credentials: %w", err)
		}
		if have >= most {
			return errs.New(errs.Conflict, "the service account has %d credentials in force", have).Try("revoke one first")
		}
		return nil
	}
}

// RevokeCredential ends a credential, with the SSH keys that it has added. The SSH keys of an account are hidden from its users, so the statements run without their scope.
func (s *Service) RevokeCredential(ctx context.Context, ch identity.Change[struct{}], account ids.ServiceAccount, id ids.Credential) error {
	ended := revocation.Ended{}
	_, err := ch.ApplyWith(pg.WithScope(ctx, pg.Platform), s.Service, func() (none struct{}, _ func(*pgx.Batch), _ error) {
		a, err := s.ServiceAccountByID(ctx, ch.Caller, account)
		if err != nil {
			return none, nil, err
		}
		c, err := pg.One(ctx, s.DB, "credential", selectCredential, scanCredential, account, id)
		if err == nil && c.RevokedAt != nil {
			err = errs.New(errs.NotFound, "the credential is revoked")
		}
		if err != nil {
			return none, nil, err
		}
		return none, func(b *pgx.Batch) {
			queueAccount(b, a)
			b.Queue(revokeCredential, account, id).Exec(pg.OrElse(identity.ErrRaced))
			ended.QueueSSHKeys(b, account, &id)
			s.Note(b, ch.Caller, "credential.revoke", a.credential(id), audit.Fields{"service_account": account.String()}, nil)
		}, nil
	}, func(tx pgx.Tx) error { return ended.Follow(ctx, tx, s.Service.Rekey) })
	if err == nil {
		s.RightsChanged()
	}
	return err
}
