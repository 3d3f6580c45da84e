package observed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// LastApplied is what a room last carried out of a declaration, and when.
type LastApplied struct {
	Applied

	At time.Time
}

// LastApplied reads it; known is false where no room has yet.
func (s *Store) LastApplied(ctx context.Context, uid uuid.UUID) (c LastApplied, known bool, err error) {
	err = s.DB.QueryRow(ctx, selectCarriedOut, uid).Scan(&c.UID, &c.Generation, &c.Epoch, &c.SpecHash, &c.Gone, &c.At)
	if errors.Is(err, pgx.ErrNoRows) {
		return LastApplied{}, false, nil
	}
	if err != nil {
		return LastApplied{}, false, fmt.Errorf("reading what was carried out of %s: %w", uid, err)
	}
	return c, true, nil
}
