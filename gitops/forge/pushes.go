package forge

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// maxLogin limits a name at the forge. The longest of the three forges has 255 characters.
const maxLogin = 255

// AddPusher records who has pushed a commit to the tracked branch of a source. The email is empty
// if it is not that of a user.
func (r *Reports) AddPusher(ctx context.Context, source, commit string, p Pusher) error {
	if p.Login == "" || len(p.Login) > maxLogin || commit == "" {
		return nil
	}
	if _, err := r.DB.Exec(ctx, insertPush, source, commit, p.Login, p.Email); err != nil {
		return fmt.Errorf("recording the pusher of %s: %w", commit, err)
	}
	return nil
}

// Pushers returns the e-mail addresses of the users who have pushed or merged a commit. An address
// is empty if it is not that of a user.
func (*Reports) Pushers(ctx context.Context, q pg.Queryer, source, commit string) ([]string, error) {
	rows, err := q.Query(ctx, selectPushers, source, commit)
	if err != nil {
		return nil, fmt.Errorf("reading the pushers of %s: %w", commit, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading the pushers of %s: %w", commit, err)
	}
	return list, nil
}

// DeleteReports deletes reports that have not changed for an age, at most limit of them. A changed report replaces its row
// whatever its age, so the table has no partitions.
func DeleteReports(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	tag, err := q.Exec(ctx, deleteReports, age, limit)
	if err != nil {
		return 0, fmt.Errorf("deleting old reports to forges: %w", err)
	}
	return tag.RowsAffected(), nil
}

// DeletePushes deletes records of pushes of an age, at most limit of them.
func DeletePushes(ctx context.Context, q pg.Queryer, age time.Duration, limit int) (int64, error) {
	tag, err := q.Exec(ctx, deletePushes, age, limit)
	if err != nil {
		return 0, fmt.Errorf("deleting old pushes: %w", err)
	}
	return tag.RowsAffected(), nil
}
