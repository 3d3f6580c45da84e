package reconciler

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// OpenDrift is the drift that is open or ignored, by object.
type OpenDrift map[uuid.UUID][]plan.OpenDrift

// QueueOpenDrift reads the open drift of exactly these objects.
func QueueOpenDrift(b *pgx.Batch, keys []uuid.UUID) OpenDrift {
	s := OpenDrift{}
	b.Queue(selectFindings, keys).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var object uuid.UUID
			var deadline, until *time.Time
			var st plan.OpenDrift
			if err := rows.Scan(&object, &st.ID, &st.Field, &st.Desired, &st.Observed, &st.Cause, &st.Policy, &st.Owner, &st.OpenedAt, &deadline,
				&st.Ignored, &st.IgnoredBy, &st.IgnoredReason, &until, &st.Cost, &st.Currency, &st.Version); err != nil {
				return fmt.Errorf("reading drift: %w", err)
			}
			st.DeadlineAt, st.IgnoredUntil = orZero(deadline), orZero(until)
			s[object] = append(s[object], st)
		}
		return rows.Err()
	})
	return s
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// orNull returns NULL for a time that is not set.
func orNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Drifts writes the moves of drift findings and emits their events.
type Drifts struct{ Naming ids.Naming }

// Queue writes the moves in the caller's transaction, with at most three statements, and emits an event for each drift that
// opened or closed.
func (d Drifts) Queue(b *pgx.Batch, moves []plan.Drift) error {
	rows := map[plan.Move][]driftRecord{}
	var healed []uuid.UUID
	for i := range moves {
		m := &moves[i]
		switch m.Move {
		case plan.Opened:
			m.ID, m.Version = uuid.New(), 0
			rows[m.Move] = append(rows[m.Move], record(*m))
		case plan.Changed:
			rows[m.Move] = append(rows[m.Move], record(*m))
		case plan.Healed:
			healed = append(healed, m.ID)
		}
		d.queueEvents(b, *m)
	}
	for move, sql := range map[plan.Move]string{plan.Opened: openDrift, plan.Changed: changeDrift} {
		if len(rows[move]) == 0 {
			continue
		}
		text, err := json.Marshal(rows[move])
		if err != nil {
			return fmt.Errorf("encoding drift: %w", err)
		}
		b.Queue(sql, text)
	}
	if len(healed) > 0 {
		b.Queue(healDrift, healed)
	}
	return nil
}

type driftRecord struct {
	ID            uuid.UUID   `json:"id"`
	Kind          string      `json:"kind"`
	Object        uuid.UUID   `json:"object_id"`
	Name          string      `json:"name"`
	Field         string      `json:"field"`
	Desired       string      `json:"desired"`
	Observed      string      `json:"observed"`
	Cause         string      `json:"cause"`
	Policy        plan.Rule   `json:"policy"`
	Owner         string      `json:"owner"`
	Status        string      `json:"status"`
	DeadlineAt    *time.Time  `json:"deadline_at"`
	Cost          money.Minor `json:"cost_minor"`
	Currency      string      `json:"currency"`
	IgnoredBy     string      `json:"ignored_by"`
	IgnoredReason string      `json:"ignored_reason"`
	IgnoredUntil  *time.Time  `json:"ignored_until"`
	Version       int64       `json:"version"`
}

func record(d plan.Drift) driftRecord {
	r := driftRecord{
		ID: d.ID, Kind: string(d.Kind), Object: d.Object, Name: d.Name, Field: d.Field, Desired: d.Desired, Observed: d.Observed, Cause: d.Cause,
		Policy: d.Policy, Owner: d.Owner, Status: DriftOpen, DeadlineAt: orNull(d.DeadlineAt), Cost: d.Cost, Currency: d.Currency,
		IgnoredBy: d.IgnoredBy, IgnoredReason: d.IgnoredReason, IgnoredUntil: orNull(d.IgnoredUntil), Version: d.Version,
	}
	if d.Ignored {
		r.Status = DriftIgnored
	}
	return r
}

// The subjects of the events that the loop emits.
const (
	SubjectDriftOpened = "fleet.drift_opened"
	SubjectDriftClosed = "fleet.drift_closed"
)

// DriftEvent is the payload of fleet.drift_opened and fleet.drift_closed.
type DriftEvent struct {
	Drift    string      `json:"drift_id"`
	Kind     string      `json:"kind"`
	Object   string      `json:"object_id"`
	Name     string      `json:"name"`
	Field    string      `json:"field"`
	Desired  string      `json:"desired"`
	Observed string      `json:"observed"`
	Policy   string      `json:"policy"`
	Owner    string      `json:"owner"`
	Cause    string      `json:"cause"`
	Since    time.Time   `json:"opened_at"`
	Cost     money.Minor `json:"cost_per_hour_minor"`
	Currency string      `json:"currency"`
}

// queueEvents emits events for opened and closed drift. A changed text of a finding emits none; the end of
// an ignore period does.
func (d Drifts) queueEvents(b *pgx.Batch, m plan.Drift) {
	subject, sequence := SubjectDriftOpened, m.Version+1
	switch {
	case m.Move == plan.Healed:
		subject = SubjectDriftClosed
	case m.Move == plan.Changed && !m.Reopened:
		return
	}
	event.Queue(b, event.Draft{
		Stream: event.StreamFleet, Subject: subject, Aggregate: "drift:" + m.ID.String(), Sequence: sequence,
		URN: d.Naming.Name("", "", "drift", m.ID.String()).String(),
		Payload: DriftEvent{
			Drift: m.ID.String(), Kind: string(m.Kind), Object: m.Object.String(), Name: m.Name, Field: m.Field, Desired: m.Desired, Observed: m.Observed,
			Policy: string(m.Policy), Owner: m.Owner, Cause: m.Cause, Since: m.OpenedAt.UTC(), Cost: m.Cost, Currency: m.Currency,
		},
	})
}

// ObjectApplied closes the drift of stored specs after tx has applied their desired object.
func (d Drifts) ObjectApplied(ctx context.Context, tx pgx.Tx, o plan.Subject) (moves []plan.Drift, err error) {
	b := &pgx.Batch{}
	open := QueueOpenDrift(b, []uuid.UUID{o.Object})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("reading drift: %w", err)
	}
	moves = plan.EvaluateDrift(o, nil, open[o.Object], plan.OfSpec, time.Time{}).Moves
	return moves, d.Write(ctx, tx, moves)
}

// Write is Queue in a round trip of its own.
func (d Drifts) Write(ctx context.Context, tx pgx.Tx, moves []plan.Drift) error {
	if len(moves) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	if err := d.Queue(b, moves); err != nil {
		return err
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("writing drift: %w", err)
	}
	return nil
}
