package observed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// LastApplied is the generation of a desired object that a package last applied, and the time.
type LastApplied struct {
	Applied

	At time.Time
}

// LastApplied reads it; known is false if no package has applied one yet.
func (s *Store) LastApplied(ctx context.Context, uid uuid.UUID) (c LastApplied, known bool, err error) {
	err = s.DB.QueryRow(ctx, selectCarriedOut, uid).Scan(&c.UID, &c.Generation, &c.Epoch, &c.SpecHash, &c.Gone, &c.At)
	if errors.Is(err, pgx.ErrNoRows) {
		return LastApplied{}, false, nil
	}
	if err != nil {
		return LastApplied{}, false, fmt.Errorf("reading the applied spec of %s: %w", uid, err)
	}
	return c, true, nil
}
