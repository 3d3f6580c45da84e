package observed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// CarriedOut is what a room last carried out of a declaration, and when.
type CarriedOut struct {
	Applied

	At time.Time
}

// CarriedOut reads it; known is false where no room has yet.
func (s *Store) CarriedOut(ctx context.Context, uid uuid.UUID) (c CarriedOut, known bool, err error) {
	err = s.DB.QueryRow(ctx, selectCarriedOut, uid).Scan(&c.UID, &c.Generation, &c.Epoch, &c.SpecHash, &c.Gone, &c.At)
	if errors.Is(err, pgx.ErrNoRows) {
		return CarriedOut{}, false, nil
	}
	if err != nil {
		return CarriedOut{}, false, fmt.Errorf("reading what was carried out of %s: %w", uid, err)
	}
	return c, true, nil
}
