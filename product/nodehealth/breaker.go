package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/product/fleet"
)

// FaultRules are the policy values that define the consequences of faults.
type FaultRules struct {
	Action      string // quarantine_slot | cordon_node | report
	MassPercent int    // of the fleet may get holds by the platform in ten minutes
	MassMinimum int    // nodes, whatever the share
}

// massWindow is the time that node.mass_action_percent speaks of.
const massWindow = 10 * time.Minute

// The owner and the reasons of the platform's own holds.
const (
	causeHealth      = "health"
	causeFingerprint = "fingerprint"
)

// wants returns the holds that should be active, sorted by device.
func (k *nodeState) wants(v verdict, hardware string) (all []fleet.SystemHold) {
	if v.Node != "" {
		all = append(all, fleet.SystemHold{Cause: causeHealth, Reason: v.Node})
	}
	if hardware != "" {
		all = append(all, fleet.SystemHold{Cause: causeFingerprint, Reason: hardware})
	}
	for _, c := range k.Cards {
		if why := v.Slots[c.UUID]; why != "" {
			all = append(all, fleet.SystemHold{GPU: c.UUID, Cause: causeHealth, Reason: why})
		}
	}
	return all
}

// applyHolds lifts the platform's holds without a reason, and sets missing ones within the limit of the
// breaker. Holds of other owners stay.
func (s *Service) applyHolds(ctx context.Context, tx pgx.Tx, id ids.Node, k *nodeState, v verdict, hardware string) error {
	wants := map[systemHold]fleet.SystemHold{}
	for _, w := range k.wants(v, hardware) {
		wants[systemHold{GPU: w.GPU, Cause: w.Cause}] = w
	}
	var over []uuid.UUID
	for _, h := range k.Holds {
		key := systemHold{GPU: h.GPU, Cause: h.Cause}
		if _, wanted := wants[key]; !wanted {
			over = append(over, h.ID)
		}
		delete(wants, key)
	}
	if len(over) > 0 {
		b := &pgx.Batch{}
		fleet.QueueLiftSystem(b, id, over)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("lifting holds of %s: %w", id, err)
		}
	}
	var missing []fleet.SystemHold
	for _, w := range k.wants(v, hardware) {
		if _, missed := wants[systemHold{GPU: w.GPU, Cause: w.Cause}]; missed {
			w.ID = uuid.Must(uuid.NewV7())
			missing = append(missing, w)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	may, err := s.breakerAllows(ctx, tx, id, k, missing[0].Reason)
	if err != nil || !may {
		return err
	}
	return s.put(ctx, tx, id, k, missing)
}

// breakerAllows checks the breaker. A wrong rule, a broken clock or a bad driver causes the same reports as the failure
// of many nodes at once. Above the limit an operator decides.
func (s *Service) breakerAllows(ctx context.Context, tx pgx.Tx, id ids.Node, k *nodeState, reason string) (bool, error) {
	var fleet, held, tripped, then int
	var counted bool
	b := &pgx.Batch{}
	b.Queue(lockBreaker)
	b.Queue(selectBreaker, id, massWindow).QueryRow(func(row pgx.Row) error { return row.Scan(&fleet, &held, &counted, &tripped, &then) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return false, fmt.Errorf("asking the breaker about %s: %w", id, err)
	}
	rules := s.Rules(k.SKU)
	allowed := max(rules.MassMinimum, fleet*rules.MassPercent/100)
	if tripped > 0 && max(rules.MassMinimum, then*rules.MassPercent/100) > tripped {
		// An operator has raised the limit since, which clears the breaker. A limit that rises only
		// because the fleet has grown does not clear it: no operator has decided that.
		if _, err := s.ClearBreaker(ctx, tx, "policy"); err != nil {
			return false, err
		}
		tripped = 0
	}
	if tripped == 0 && (counted || held < allowed) {
		return true, nil
	}
	var trip uuid.UUID
	var first bool
	err := tx.QueryRow(ctx, tripBreaker, id, held, allowed, fleet, k.Name+": "+reason).Scan(&trip, &first)
	switch {
	case errors.Is(err, pgx.ErrNoRows): // this node was counted before
		return false, nil
	case err != nil:
		return false, fmt.Errorf("tripping the breaker for %s: %w", id, err)
	case first:
		return false, s.emitStopped(ctx, tx, trip, held, allowed, fleet, k.Name+": "+reason)
	}
	return false, nil
}

// put sets the missing holds of a node, and updates its slots afterwards: they read the new rows.
func (s *Service) put(ctx context.Context, tx pgx.Tx, id ids.Node, k *nodeState, missing []fleet.SystemHold) error {
	held, err := fleet.PutSystemHolds(ctx, tx, id, missing)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	for _, w := range missing {
		if slot := held[w.ID]; slot != nil {
			s.emitQuarantined(b, id, k, w, *slot)
		}
	}
	fleet.QueueFollowHolds(b, id, "held")
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("emitting the events of the holds of %s: %w", id, err)
	}
	return nil
}

// Trip is one time that the breaker stopped the platform from holding more.
type Trip struct {
	ID                   uuid.UUID
	TrippedAt            time.Time
	Held, Allowed, Fleet int
	Reason               string // of the hold that was rejected first
	RejectedHolds        int    // nodes whose holds it has rejected
	ClearedAt            *time.Time
	ClearedBy            string
}

// BreakerOpen reports whether the trip waits for an operator.
func (t Trip) BreakerOpen() bool { return t.ClearedAt == nil }

// Breaker reads the last trip; there may never have been one.
func (s *Service) Breaker(ctx context.Context) (trip Trip, ever bool, err error) {
	return readTrip(ctx, s.DB)
}

func readTrip(ctx context.Context, q pg.Queryer) (trip Trip, ever bool, err error) {
	rows, err := q.Query(ctx, selectTrip)
	if err != nil {
		return Trip{}, false, fmt.Errorf("reading the breaker: %w", err)
	}
	trip, err = pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Trip])
	if errors.Is(err, pgx.ErrNoRows) {
		return Trip{}, false, nil
	}
	if err != nil {
		return Trip{}, false, fmt.Errorf("reading the breaker: %w", err)
	}
	return trip, true, nil
}

// ClearBreaker lets the platform set holds again, with an empty window. The caller writes the audit row.
// The next check evaluates the rejected holds again.
func (s *Service) ClearBreaker(ctx context.Context, tx pgx.Tx, by string) (cleared bool, err error) {
	tag, err := tx.Exec(ctx, clearBreaker, by)
	if err != nil {
		return false, fmt.Errorf("clearing the breaker: %w", err)
	}
	return tag.RowsAffected() > 0, nil
}
