package forge

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// maxLogin limits a name at the forge. The longest of the three forges has 255 characters.
const maxLogin = 255

// AddPusher records who has pushed a commit to the tracked branch of a source. The email is empty
// if it is not that of a user. Records of more than 90 days are deleted.
func (r *Reports) AddPusher(ctx context.Context, source, commit string, p Pusher) error {
	if p.Login == "" || len(p.Login) > maxLogin || commit == "" {
		return nil
	}
	b := &pgx.Batch{}
	b.Queue(insertPush, source, commit, p.Login, p.Email)
	b.Queue(deletePushes)
	if err := r.DB.SendBatch(ctx, b).Close(); err != nil {
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
