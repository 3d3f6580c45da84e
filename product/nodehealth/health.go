package nodehealth

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/protocol"
	"github.com/gpuaas/gpuaas/protocol/fault"
)

// Health lists the values of all sources for a node and its GPUs, faults first.
func (s *Service) Health(ctx context.Context, q pg.Queryer, id ids.Node) ([]Report, error) {
	rows, err := q.Query(ctx, selectOf, id)
	if err != nil {
		return nil, fmt.Errorf("reading health of %s: %w", id, err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Report])
	if err != nil {
		return nil, fmt.Errorf("reading health of %s: %w", id, err)
	}
	return list, nil
}

// Advice returns the recommended action for a report, or nothing.
func (r Report) Advice() string {
	rule, _ := fault.RuleOf(fault.Action(r.Action))
	return rule.Operator
}

// Override is an operator's health override: another value for a check on a target, or, without a check
// that a source reports, an additional value.
type Override struct {
	Target  string // GPU UUID; empty: the node
	Check   string
	Level   protocol.Health
	Classes []protocol.Class
	Message string
	Until   *time.Time
	Actor   string
}

// Override stores an operator's health override and applies it to the node at once. The caller writes
// the audit row.
func (s *Service) Override(ctx context.Context, tx pgx.Tx, id ids.Node, o Override) error {
	if slices.ContainsFunc(o.Classes, func(c protocol.Class) bool { return !slices.Contains(protocol.Classes(), c) }) {
		return errs.Invalid("classes", "there are %v", protocol.Classes())
	}
	if protocol.HealthOrder(o.Level) < 0 {
		return errs.Invalid("level", "%q is none of healthy, degraded, unhealthy, unknown", o.Level)
	}
	if o.Classes == nil {
		o.Classes = []protocol.Class{}
	}
	tag, err := tx.Exec(ctx, putOverride, id, o.Target, o.Check, string(o.Level), o.Message, o.Classes, o.Until, o.Actor)
	if err != nil {
		return fmt.Errorf("overriding health of %s: %w", id, err)
	}
	if tag.RowsAffected() == 0 {
		return errs.New(errs.NotFound, "no such node")
	}
	return s.Recheck(ctx, tx, id)
}

// Withdraw removes an override.
func (s *Service) Withdraw(ctx context.Context, tx pgx.Tx, id ids.Node, target, check string) error {
	tag, err := tx.Exec(ctx, dropOverride, id, target, check)
	if err != nil {
		return fmt.Errorf("withdrawing an override of %s: %w", id, err)
	}
	if tag.RowsAffected() == 0 {
		return errs.New(errs.NotFound, "no such override")
	}
	return s.Recheck(ctx, tx, id)
}

// Recheck evaluates the stored reports of a node again, after an override was added or removed or the
// breaker was cleared.
func (s *Service) Recheck(ctx context.Context, tx pgx.Tx, id ids.Node) error {
	k, err := s.lockState(ctx, tx, id)
	if err != nil {
		return err
	}
	v := k.classify(nil, s.Rules(k.SKU).Action)
	return s.writeHealth(ctx, tx, id, k, v, change{hardware: k.Changed})
}

// NeedRecheck lists the nodes, by id after the given one, whose stored health may be outdated.
func (s *Service) NeedRecheck(ctx context.Context, after ids.Node, limit int) ([]ids.Node, error) {
	rules := s.Rules("")
	rows, err := s.DB.Query(ctx, selectIll, after, limit, rules.MassMinimum, rules.MassPercent)
	if err != nil {
		return nil, fmt.Errorf("listing ill nodes: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[ids.Node])
	if err != nil {
		return nil, fmt.Errorf("listing ill nodes: %w", err)
	}
	return list, nil
}

// AcceptHardware accepts the last reported hardware as the hardware of the node, and lifts the
// platform's hold. It returns the difference to the previously accepted hardware. The caller writes the
// audit row.
func (s *Service) AcceptHardware(ctx context.Context, tx pgx.Tx, id ids.Node) (changed string, err error) {
	name, t, changed, err := s.LockHardware(ctx, tx, id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return "", errs.New(errs.NotFound, "no such node")
	case err != nil:
		return "", fmt.Errorf("reading hardware of %s: %w", id, err)
	case t == nil:
		return "", errs.New(errs.Conflict, "%s has not reported its hardware", name).Try("request a report with gpuaas node probe %s", name)
	case len(t.Missing) > 0:
		return "", errs.New(errs.Conflict, "the last report of %s lacks %s", name, strings.Join(t.Missing, ", ")).Try("mend that first")
	}
	h := t.Hardware()
	b := &pgx.Batch{}
	fleet.QueueAccepted(b, id, &h)
	fleet.QueueMarkHardware(b, id)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return "", fmt.Errorf("accepting hardware of %s: %w", id, err)
	}
	return changed, s.Recheck(ctx, tx, id)
}

// TenantFault is a fault of a GPU with the text for its tenant.
type TenantFault struct {
	Text  string
	Since time.Time
}

// QueueTenantFaults adds a read to b, of the faults that are displayed to the tenants of these allocations, the oldest
// first. The map is filled when b is sent.
func QueueTenantFaults(b *pgx.Batch, of []uuid.UUID) map[ids.Allocation][]TenantFault {
	all := map[ids.Allocation][]TenantFault{}
	b.Queue(selectShown, of).Query(func(rows pgx.Rows) error {
		var id ids.Allocation
		var check string
		var since time.Time
		_, err := pgx.ForEachRow(rows, []any{&id.UUID, &check, &since}, func() error {
			f, _ := fault.Of(check)
			text := f.TenantText()
			if text != "" && !slices.ContainsFunc(all[id], func(s TenantFault) bool { return s.Text == text }) {
				all[id] = append(all[id], TenantFault{text, since})
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("reading faults to show: %w", err)
		}
		return nil
	})
	return all
}
