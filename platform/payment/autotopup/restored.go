package autotopup

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/platform/audit"
)

// PauseAll pauses the active mandates of a restored database, and returns their number. It does not know the charges of the lost
// time: with a low balance, the next charge would be made a second time. Each tenant resumes its own. Only the owner of the
// schema may.
func (s *Service) PauseAll(ctx context.Context, tx pgx.Tx, by audit.By) (int, error) {
	rows, err := tx.Query(ctx, lockActive)
	if err != nil {
		return 0, fmt.Errorf("locking the active mandates: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanMandate)
	if err != nil {
		return 0, fmt.Errorf("reading the active mandates: %w", err)
	}
	b := &pgx.Batch{}
	for _, m := range all {
		s.queue(b, s.next(m, Paused, reasonRestored), by, "auto_topup.pause")
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return 0, fmt.Errorf("pausing the active mandates: %w", err)
	}
	return len(all), nil
}
