package slots

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// Slot is the sellable unit of a node.
type Slot struct {
	ID     ids.Slot
	Node   ids.Node
	Host   string // the node's name
	GPU    string
	SKU    string
	Region string
	Status string
	Reason string
	Holder *uuid.UUID

	CreatedAt, UpdatedAt time.Time
	// InspectedBy lists the operators whose inspection waits for a second one.
	InspectedBy []string `db:"-"`
}

// OnlyHeld reports whether a slot that is excluded for this reason was clean or freed by a proof.
func OnlyHeld(reason string) bool {
	return reason == "" || reason == "unhealthy" || reason == "quarantined by an operator"
}

func ReadSlot(ctx context.Context, tx pgx.Tx, id ids.Slot) (Slot, error) {
	rows, err := tx.Query(ctx, selectSlot, id)
	if err != nil {
		return Slot{}, fmt.Errorf("reading slot %s: %w", id, err)
	}
	slot, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Slot])
	if errors.Is(err, pgx.ErrNoRows) {
		return Slot{}, errs.New(errs.NotFound, "no such slot")
	}
	return slot, err
}
