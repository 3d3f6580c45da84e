package metering

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Tick is one pass of accrual over [From, To). The zero Tick means that there
// was nothing to do.
type Tick struct {
	From, To  time.Time
	Transfers int // one per tenant that was charged
}

// Accrue charges all that was used since the last pass. Less than a second since
// then, nothing metered yet, or another pass under way: it does nothing. A
// second pass over the same stretch is refused by the tick's unique keys.
func (s *Service) Accrue(ctx context.Context, tx pgx.Tx) (Tick, error) {
	return s.accrue(ctx, tx, nil)
}

func (s *Service) accrue(ctx context.Context, tx pgx.Tx, at *int64) (Tick, error) {
	var mine bool
	if err := tx.QueryRow(ctx, lockAccrual).Scan(&mine); err != nil {
		return Tick{}, fmt.Errorf("locking accrual: %w", err)
	}
	if !mine {
		return Tick{}, nil
	}
	var from, to int64
	err := tx.QueryRow(ctx, insertTick, at).Scan(&from, &to)
	if errors.Is(err, pgx.ErrNoRows) {
		return Tick{}, nil
	}
	if err != nil {
		return Tick{}, fmt.Errorf("beginning a tick: %w", err)
	}
	tick := Tick{From: time.Unix(from, 0).UTC(), To: time.Unix(to, 0).UTC()}
	if err := tx.QueryRow(ctx, chargeUsage, from, to).Scan(&tick.Transfers); err != nil {
		return Tick{}, fmt.Errorf("charging the tick up to %s: %w", tick.To.Format(time.RFC3339), err)
	}
	return tick, nil
}
