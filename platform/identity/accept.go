package identity

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// PendingInvitation is an open invitation of a user who signs in. The zero value is none.
type PendingInvitation struct {
	ID     ids.Invitation
	Tenant ids.Tenant
	Role   string
}

// LockInvitation finds an open invitation of a verified address and locks its tenant. A transaction
// always locks the tenant before the user.
func LockInvitation(ctx context.Context, tx pgx.Tx, email string) (i PendingInvitation, err error) {
	if email == "" {
		return i, nil
	}
	err = tx.QueryRow(ctx, selectOwnInvitation, email).Scan(&i.ID, &i.Tenant, &i.Role)
	if errors.Is(err, pgx.ErrNoRows) {
		return PendingInvitation{}, nil
	}
	if err == nil {
		_, err = tx.Exec(ctx, lockTenant, i.Tenant)
	}
	if err != nil {
		return i, fmt.Errorf("looking for an invitation: %w", err)
	}
	return i, nil
}

// Accept makes the user a member. It reports false if the invitation was revoked meanwhile, and returns
// ErrRaced if a concurrent change has made the user a member.
func (i PendingInvitation) Accept(ctx context.Context, tx pgx.Tx, user ids.User) (bool, error) {
	tag, err := tx.Exec(ctx, acceptInvitation, i.ID)
	if err != nil || tag.RowsAffected() == 0 {
		return false, err
	}
	if tag, err = tx.Exec(ctx, joinTenant, i.Tenant, user, i.Role); err != nil {
		return false, fmt.Errorf("accepting an invitation: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return false, ErrRaced
	}
	return true, nil
}
