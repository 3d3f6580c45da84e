package identity

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
)

// OwnInvitation is an invitation of the caller to a tenant.
type OwnInvitation struct {
	Invitation

	Tenant     ids.Tenant
	TenantName string

	acceptedAt, revokedAt *time.Time
}

func scanOwnInvitation(row pgx.CollectableRow) (i OwnInvitation, err error) {
	err = row.Scan(&i.ID, &i.Email, &i.Role, &i.CreatedAt, &i.ExpiresAt, &i.Tenant, &i.TenantName, &i.acceptedAt, &i.revokedAt)
	return i, err
}

// OwnInvitations lists the open invitations to the caller's e-mail address by id. Row-level security hides
// other tenants from a caller, so the statements of own invitations name the caller and run without it.
func (s *Service) OwnInvitations(ctx context.Context, c Caller, after ids.Invitation, limit int) ([]OwnInvitation, error) {
	return pg.List(unscoped(ctx), s.DB, "invitations", selectOwnInvitations, scanOwnInvitation, c.User, after, limit)
}

// AcceptInvitation makes the caller a member of the tenant that has invited the caller's e-mail address. A
// sign-in alone accepts nothing: a stranger could otherwise bring a user, with the user's keys and later
// work, into a tenant of the stranger.
func (s *Service) AcceptInvitation(ctx context.Context, ch Change[struct{}], id ids.Invitation) error {
	ctx = unscoped(ctx)
	_, err := ch.applyToRightsOf(ctx, s, func() (none struct{}, _ func(*pgx.Batch), _ error) {
		i, err := s.ownInvitation(ctx, ch.Caller, id)
		if err == nil {
			err = s.Recent(ch.Caller)
		}
		if err == nil && ch.Caller.Tenant != (ids.Tenant{}) {
			err = errs.New(errs.Conflict, "you are a member of the tenant %s", ch.Caller.TenantName).With("reason", "member").
				Try("a user is a member of one tenant: an owner of it must remove you first")
		}
		return none, func(b *pgx.Batch) {
			queueLockTenant(b, i.Tenant)
			QueueLockUser(b, ch.Caller.User)
			b.Queue(acceptInvitation, i.ID).Exec(pg.OrElse(ErrRaced))
			b.Queue(joinTenant, i.Tenant, ch.Caller.User, i.Role).Exec(pg.OrElse(
				errs.New(errs.Conflict, "you have become a member of a tenant meanwhile").With("reason", "member")))
			s.Note(b, ch.Caller, "invitation.accept", i.ref(i.Tenant), nil, audit.Fields{"user": ch.Caller.User.String(), "tenant_role": i.Role})
		}, err
	}, s.rekey(ctx, ch.Caller.User.UUID))
	return err
}

// DeclineInvitation ends an invitation of the caller.
func (s *Service) DeclineInvitation(ctx context.Context, ch Change[struct{}], id ids.Invitation) error {
	ctx = unscoped(ctx)
	_, err := ch.Apply(ctx, s, func() (none struct{}, _ func(*pgx.Batch), _ error) {
		i, err := s.ownInvitation(ctx, ch.Caller, id)
		return none, func(b *pgx.Batch) {
			b.Queue(revokeInvitation, i.ID, i.Tenant).Exec(pg.OrElse(ErrRaced))
			s.Note(b, ch.Caller, "invitation.decline", i.ref(i.Tenant), nil, audit.Fields{"user": ch.Caller.User.String()})
		}, err
	})
	return err
}

// ownInvitation reads an open invitation to the caller's e-mail address. One to another address does not
// exist for the caller.
func (s *Service) ownInvitation(ctx context.Context, c Caller, id ids.Invitation) (OwnInvitation, error) {
	i, err := pg.One(ctx, s.DB, "invitation", selectOwnInvitation, scanOwnInvitation, id, c.User)
	switch {
	case err != nil:
		return i, err
	case i.acceptedAt != nil:
		return i, ended("the invitation was accepted", "accepted")
	case i.revokedAt != nil:
		return i, ended("the invitation was revoked", "revoked")
	case !s.Now().Before(i.ExpiresAt):
		return i, ended("the invitation has expired", "expired")
	}
	return i, nil
}

func ended(text, reason string) error {
	return errs.New(errs.Conflict, "%s", text).With("reason", reason).Try("request another invitation from an owner of the tenant")
}
