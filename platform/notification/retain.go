package notification

import (
	"context"
	"fmt"
	"time"

	"github.com/gpuaas/gpuaas/internal/pg"
)

func remove(ctx context.Context, q pg.Queryer, sql, of string, age time.Duration, limit int) (int64, error) {
	tag, err := q.Exec(ctx, sql, age, limit)
	if err != nil {
		return 0, fmt.Errorf("deleting old %s: %w", of, err)
	}
	return tag.RowsAffected(), nil
}

// DeleteDigests deletes digests that were sent before.
func DeleteDigests(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	return remove(ctx, q, deleteDigests, "digests", age, limit)
}

// DeleteSuppressed deletes suppressions that an operator has lifted before, and old ones of an address that neither a user
// nor an open invitation has. Others stay: the address is still rejected.
func DeleteSuppressed(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	return remove(ctx, q, deleteSuppressed, "suppressions", age, limit)
}

// DeleteInvitationMails deletes the marks of invitations that have ended.
func DeleteInvitationMails(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	return remove(ctx, q, deleteInvitationMails, "marks of invitations", age, limit)
}

// DeletePreferences deletes the preferences of users who were deleted before.
func DeletePreferences(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	return remove(ctx, q, deletePreferences, "preferences", age, limit)
}
