package fleet

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/slots"
)

// InspectSlot records that an operator has inspected a slot of which no proof exists. When enough operators
// have done so, it ends the claim on the slot and frees it. end runs in the transaction for the allocation
// that has the slot, and receives whether the slot is free now. It rejects an allocation that may still use it.
func (s *Service) InspectSlot(ctx context.Context, ch identity.Change[slots.Slot], id ids.Slot, reason string,
	end func(ctx context.Context, tx pgx.Tx, holder ids.Allocation, freed bool) error,
) (slots.Slot, error) {
	if err := s.Identity.Recent(ch.Caller); err != nil {
		return slots.Slot{}, err
	}
	var by []string
	after := map[string]any{"reason": reason, "inspected": true}
	slot, err := s.changeSlot(ctx, ch, id, "clear", after, func(tx pgx.Tx, slot slots.Slot, b *pgx.Batch) error {
		if slot.Status == "clean" || slot.Status == "quarantined" && slot.Holder == nil && slots.OnlyHeld(slot.Reason) {
			return errs.New(errs.Conflict, "the slot of %s is %s and needs no inspection", slot.Host, slot.Status).Try("clear it without inspected")
		}
		var err error
		if by, err = s.inspections(ctx, tx, id, ch.Caller.Actor(), reason); err != nil {
			return err
		}
		after["inspected_by"], after["required"] = by, s.Inspections()
		freed := len(by) >= s.Inspections()
		if slot.Holder != nil {
			if err := end(ctx, tx, ids.From[ids.Allocation](*slot.Holder), freed); err != nil {
				return err
			}
		}
		if !freed {
			return nil
		}
		by = nil
		slots.QueueInspected(b, id)
		b.Queue(useInspections, id)
		QueueFollowHolds(b, slot.Node, "slot inspected")
		return nil
	}, func(slot *slots.Slot) { slot.InspectedBy = by })
	return slot, err
}

// inspections records an inspection and returns the actors of all that count.
func (*Service) inspections(ctx context.Context, tx pgx.Tx, id ids.Slot, actor, reason string) ([]string, error) {
	if _, err := tx.Exec(ctx, insertInspection, id, actor, reason); err != nil {
		return nil, fmt.Errorf("recording the inspection of slot %s: %w", id, err)
	}
	rows, err := tx.Query(ctx, selectInspections, id)
	if err != nil {
		return nil, fmt.Errorf("reading the inspections of slot %s: %w", id, err)
	}
	by, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("reading the inspections of slot %s: %w", id, err)
	}
	return by, nil
}
