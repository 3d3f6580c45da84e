package identity

import (
	"cmp"
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity/revocation"
)

// DeleteUser removes a user: rights, credentials and personal data. Its row stays under a pseudonym, because
// allocations, the ledger and audit rows name its id. check runs in the transaction, behind the lock of the
// user, and can reject.
func (s *Service) DeleteUser(ctx context.Context, ch Change[struct{}], id ids.User, version int64, check func(pgx.Tx) error) error {
	ended := revocation.Ended{}
	_, err := ch.applyToRightsOf(ctx, s, func() (none struct{}, _ func(*pgx.Batch), _ error) {
		u, err := s.UserByID(ctx, id)
		if err == nil {
			err = CheckVersion(version, u.Version)
		}
		if err == nil && u.ID == ch.Caller.User {
			err = errs.New(errs.Conflict, "a user cannot delete the own account").Try("contact another administrator")
		}
		return none, func(b *pgx.Batch) {
			if u.Tenant != (ids.Tenant{}) {
				queueTenantRole(b, u.Tenant, u.ID, u.TenantRole, "") // a tenant is locked before its users
			}
			queueAdmin(b, ch.Caller, u.ID)
			ended.QueueKeys(b, u.ID, nil)
			queueForget(b, []uuid.UUID{u.ID.UUID})
			s.Note(b, ch.Caller, "user.delete", u.Ref(), nil, nil)
		}, err
	}, s.after(ctx, func(tx pgx.Tx) error {
		return cmp.Or(ended.Follow(ctx, tx, s.Rekey), check(tx))
	}, id.UUID))
	return err
}

// after runs the check, and makes the allocations of the principals follow.
func (s *Service) after(ctx context.Context, check func(pgx.Tx) error, principals ...uuid.UUID) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		if err := check(tx); err != nil {
			return err
		}
		for _, p := range principals {
			if s.Rekey == nil {
				break
			}
			if err := s.Rekey(ctx, tx, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// DeleteTenant closes a tenant: its projects, service accounts, invitations and memberships end, and members
// without a role of the platform are deleted like users. Names and personal data are removed. check runs in
// the transaction, behind the lock of the tenant, and can reject.
func (s *Service) DeleteTenant(ctx context.Context, ch Change[struct{}], id ids.Tenant, version int64, check func(pgx.Tx) error) error {
	_, err := ch.applyToRightsOf(ctx, s, func() (none struct{}, _ func(*pgx.Batch), _ error) {
		t, err := s.TenantByID(ctx, id)
		if err == nil {
			err = CheckVersion(version, t.Version)
		}
		if err != nil {
			return none, nil, err
		}
		if ch.Caller.Tenant == id {
			return none, nil, errs.New(errs.Conflict, "a user cannot delete the own tenant").Try("contact an administrator who is not a member of it")
		}
		members, err := s.membersOf(ctx, id)
		return none, func(b *pgx.Batch) {
			queueLockTenant(b, t.ID)
			b.Queue(selectLeaving, t.ID).Query(same(members))
			for _, statement := range []string{closeProjects, closeAccounts, closeCredentials, closeSSHKeys, closeInvitations, deleteProjectMembers} {
				b.Queue(statement, t.ID)
			}
			queueForget(b, members)
			b.Queue(deleteTenantMembers, t.ID)
			b.Queue(closeTenant, t.ID, t.Version).Exec(pg.OrElse(ErrRaced))
			s.Note(b, ch.Caller, "tenant.delete", t.ref(), nil, nil)
		}, err
	}, s.after(ctx, check))
	return err
}

// membersOf returns the members who leave with the tenant.
func (s *Service) membersOf(ctx context.Context, id ids.Tenant) ([]uuid.UUID, error) {
	rows, err := s.DB.Query(ctx, selectLeaving, id)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// same returns ErrRaced for other rows than those that were read.
func same(members []uuid.UUID) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		now, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if err != nil {
			return err
		}
		if len(now) != len(members) {
			return ErrRaced
		}
		for i := range now {
			if now[i] != members[i] {
				return ErrRaced
			}
		}
		return nil
	}
}

// queueForget ends the credentials of users and removes their personal data.
func queueForget(b *pgx.Batch, users []uuid.UUID) {
	b.Queue(lockUsers, users)
	for _, statement := range []string{
		forgetSessions, forgetKeys, forgetMadeCredentials, forgetSSHKeys, forgetPasswords, forgetLinks, forgetInvitations,
		forgetProjects, forgetMemberships, forgetUsers,
	} {
		b.Queue(statement, users)
	}
}
