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

// Invitation is a pending membership of a tenant. The user with its e-mail address, which the
// provider has verified, accepts or declines it.
type Invitation struct {
	ID                   ids.Invitation
	Email, Role          string
	CreatedAt, ExpiresAt time.Time
}

// invitedFor is long enough for a holiday week and short enough that a mailbox
// does not collect ways in.
const invitedFor = 7 * 24 * time.Hour

func (i Invitation) ref(tenant ids.Tenant) Resource {
	return Resource{Tenant: tenant, Kind: "invitation", ID: i.ID.String()}
}

func scanInvitation(row pgx.CollectableRow) (i Invitation, err error) {
	err = row.Scan(&i.ID, &i.Email, &i.Role, &i.CreatedAt, &i.ExpiresAt)
	return i, err
}

// Invitations lists the open ones of the caller's tenant by id.
func (s *Service) Invitations(ctx context.Context, c Caller, after ids.Invitation, limit int) ([]Invitation, error) {
	return pg.List(ctx, s.DB, "invitations", selectInvitations, scanInvitation, c.Tenant, after, limit)
}

// Invite invites a user to the caller's tenant.
func (s *Service) Invite(ctx context.Context, ch Change[Invitation], email, role string) (Invitation, error) {
	email, err := address("email", email)
	if err == nil {
		err = checkRole("role", role, tenantRoles)
	}
	if err == nil && role == "owner" {
		err = s.Recent(ch.Caller)
	}
	if err != nil {
		return Invitation{}, err
	}
	tenant := ch.Caller.Tenant
	return ch.Apply(ctx, s, func() (Invitation, func(*pgx.Batch), error) {
		now := s.Now()
		i := Invitation{ID: ids.New[ids.Invitation](), Email: email, Role: role, CreatedAt: now, ExpiresAt: now.Add(invitedFor)}
		return i, func(b *pgx.Batch) {
			queueLockTenant(b, tenant)
			b.Queue(selectMemberByEmail, tenant, email).Exec(Unless(errs.New(errs.AlreadyExists, "a member of the tenant has this e-mail address").At("email")))
			b.Queue(closeExpired, tenant, email)
			b.Queue(insertInvitation, i.ID, tenant, i.Email, i.Role, ch.Caller.Principal(), i.CreatedAt, i.ExpiresAt).Exec(pg.OrElse(errs.New(errs.AlreadyExists, "this e-mail address is invited already").At("email").Try("revoke that invitation first")))
			s.Note(b, ch.Caller, "invitation.create", i.ref(tenant), nil, audit.Fields{"role": i.Role})
		}, nil
	})
}

// RevokeInvitation ends an open one.
func (s *Service) RevokeInvitation(ctx context.Context, ch Change[struct{}], id ids.Invitation) error {
	tenant := ch.Caller.Tenant
	_, err := ch.Apply(ctx, s, func() (none struct{}, _ func(*pgx.Batch), _ error) {
		i, err := pg.One(ctx, s.DB, "invitation", selectInvitation, scanInvitation, id, tenant)
		return none, func(b *pgx.Batch) {
			b.Queue(revokeInvitation, id, tenant).Exec(pg.OrElse(ErrRaced))
			s.Note(b, ch.Caller, "invitation.revoke", i.ref(tenant), audit.Fields{"role": i.Role}, nil)
		}, err
	})
	return err
}
