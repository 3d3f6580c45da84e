package reconciler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/reconciler/check"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// check returns the actions that must not run. It counts the actions of the breaker's period only
// if the plan contains automatic ones.
func (l *Loop) check(ctx context.Context, tx pgx.Tx, p plan.Plan, limits Limits) (held map[int]string, err error) {
	var budget check.Budget
	if slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Automatic }) {
		if budget, err = breakerBudget(ctx, tx, p, limits); err != nil {
			return nil, err
		}
	}
	held = map[int]string{}
	for _, h := range check.Plan(p, budget) {
		held[h.Number] = h.Why
		l.Log.ErrorContext(ctx, "action blocked", "component", "reconcile", "action", p.Actions[h.Number].Reason, "reason", h.Why,
			"object_id", p.Actions[h.Number].Object)
	}
	return held, nil
}

// breakerBudget returns the remaining budget of automatic actions in the breaker's period, and the
// objects that have used it.
func breakerBudget(ctx context.Context, tx pgx.Tx, p plan.Plan, limits Limits) (check.Budget, error) {
	if _, err := tx.Exec(ctx, lockAutomatic); err != nil {
		return check.Budget{}, fmt.Errorf("waiting for other plans: %w", err)
	}
	budget := check.Budget{Releases: limits.MassReleases, Spent: map[uuid.UUID]bool{}, Approved: map[check.Revision]bool{}}
	var nodes int
	var sources, commits []string
	for _, a := range p.Actions {
		if a.Automatic && a.Source != "" {
			sources, commits = append(sources, a.Source), append(commits, a.Commit)
		}
	}
	b := &pgx.Batch{}
	b.Queue(countNodes).QueryRow(func(row pgx.Row) error { return row.Scan(&nodes) })
	var withdrawn int
	b.Queue(selectAutomatic, massPeriod).Query(func(rows pgx.Rows) error {
		var object uuid.UUID
		var kind desired.Kind
		_, err := pgx.ForEachRow(rows, []any{&object, &kind}, func() error {
			budget.Spent[object] = true
			if kind == desired.KindNode {
				withdrawn++
			} else {
				budget.Releases--
			}
			return nil
		})
		return err
	})
	b.Queue(selectApproved, sources, commits).Query(func(rows pgx.Rows) error {
		var r check.Revision
		_, err := pgx.ForEachRow(rows, []any{&r.Source, &r.Commit}, func() error {
			budget.Approved[r] = true
			return nil
		})
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return check.Budget{}, fmt.Errorf("counting automatic actions: %w", err)
	}
	budget.Nodes = max(limits.MassNodes, nodes*limits.MassPercent/percent) - withdrawn
	return budget, nil
}

const percent = 100

// store writes a pass: its plan when it has actions, their jobs, the drift it
// found, and what of the due set remains. An empty plan writes nothing but the
// due rows that it settled.
func (l *Loop) store(ctx context.Context, tx pgx.Tx, p plan.Plan, held map[int]string, due []dueRow, now time.Time) error {
	b := &pgx.Batch{}
	if len(p.Actions) > 0 {
		if err := queuePlan(b, p, held); err != nil {
			return err
		}
	}
	if err := (Drifts{l.Naming}).Queue(b, p.Drift); err != nil {
		return err
	}
	queueDue(b, p.Next, due, now)
	if b.Len() > 0 {
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return fmt.Errorf("storing plan: %w", err)
		}
	}
	jobs := jobsOf(p, held)
	if len(jobs) == 0 {
		return nil
	}
	if _, err := l.Jobs.InsertManyTx(ctx, tx, jobs); err != nil {
		return fmt.Errorf("enqueueing jobs: %w", err)
	}
	return nil
}

// jobsOf returns the jobs of a plan without the actions that the check stopped. It queues one probe
// for a node with many due objects: all jobs are inserted in one statement, which fails if two of
// them are equal to River.
func jobsOf(p plan.Plan, held map[int]string) (jobs []river.InsertManyParams) {
	asks := make(map[uuid.UUID]int64, len(p.Next))
	for _, n := range p.Next {
		asks[n.Object] = n.Previous.Until.UnixMilli()
	}
	asked := map[ids.Node]bool{}
	for i, a := range p.Actions {
		if _, no := held[i]; no || a.Verb == plan.Probe && asked[a.Node] {
			continue
		}
		if a.Verb == plan.Probe {
			asked[a.Node] = true
		}
		jobs = append(jobs, river.InsertManyParams{Args: job(a, asks[a.Object])})
	}
	return jobs
}

// queuePlan writes all actions of a plan by two statements, however many.
func queuePlan(b *pgx.Batch, p plan.Plan, held map[int]string) error {
	type row struct {
		Number     int       `json:"number"`
		Kind       string    `json:"kind"`
		Object     uuid.UUID `json:"object_id"`
		Node       *ids.Node `json:"node_id"`
		Verb       string    `json:"verb"`
		Event      string    `json:"trigger"`
		Fence      int64     `json:"fence"`
		Generation int64     `json:"generation"`
		Epoch      int64     `json:"epoch"`
		Reason     string    `json:"reason"`
		Held       string    `json:"rejected_reason"`
		Judged     bool      `json:"automatic"`
	}
	rows := make([]row, len(p.Actions))
	for i, a := range p.Actions {
		rows[i] = row{i, string(a.Kind), a.Object, nil, string(a.Verb), string(a.Event), a.Fence, a.Generation, a.Epoch, a.Reason, held[i], a.Automatic}
		if a.Node != (ids.Node{}) {
			rows[i].Node = &a.Node
		}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("encoding plan: %w", err)
	}
	sum := sha256.Sum256(text)
	id := ids.New[ids.Plan]()
	b.Queue(insertPlan, id, hex.EncodeToString(sum[:]), len(rows), len(held))
	b.Queue(insertActions, id, text)
	return nil
}

// queueDue updates the locked rows: those with a next check get its time, the others are deleted. A
// swept object gets a row only if a check is scheduled.
func queueDue(b *pgx.Batch, next []plan.Next, due []dueRow, now time.Time) {
	looks := make(map[uuid.UUID]plan.Next, len(next))
	for _, n := range next {
		looks[n.Object] = n
	}
	var gone []uuid.UUID
	var kept, added columns
	for _, d := range due {
		look, again := looks[d.Object]
		switch {
		case again && d.DueAt == nil:
			added.add(look)
		case again && d.waitsFor(look, now):
			// A swept object without a row: the next sweep checks it in time.
		case again:
			kept.add(look)
		case d.DueAt != nil:
			gone = append(gone, d.Object)
		}
	}
	if len(gone) > 0 {
		b.Queue(deleteDue, gone)
	}
	kept.queue(b, keepDue)
	added.queue(b, addDue)
}

// waitsFor reports whether a row that is not due yet will lead to the same check.
func (d dueRow) waitsFor(look plan.Next, now time.Time) bool {
	return d.DueAt.After(now) && !d.DueAt.After(look.At) && d.Previous == look.Previous
}

// columns contains rows in columns, as unnest requires.
type columns struct {
	kind, reason, verb, event []string
	object                    []uuid.UUID
	at                        []time.Time
	until                     []*time.Time
	fence, generation         []int64
	failures                  []int32
}

func (c *columns) add(n plan.Next) {
	c.kind, c.object = append(c.kind, string(n.Kind)), append(c.object, n.Object)
	c.at, c.reason = append(c.at, n.At), append(c.reason, n.Reason)
	c.verb, c.event = append(c.verb, string(n.Previous.Verb)), append(c.event, string(n.Previous.Event))
	c.fence, c.generation = append(c.fence, n.Previous.Fence), append(c.generation, n.Previous.Generation)
	c.failures = append(c.failures, int32(n.Previous.Failures)) //nolint:gosec // a count of tasks
	var until *time.Time
	if !n.Previous.Until.IsZero() {
		until = &n.Previous.Until
	}
	c.until = append(c.until, until)
}

func (c *columns) queue(b *pgx.Batch, sql string) {
	if len(c.object) > 0 {
		b.Queue(sql, c.kind, c.object, c.at, c.reason, c.verb, c.event, c.fence, c.generation, c.failures, c.until)
	}
}
