package billing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/policies"
)

// Concerned lists by id the tenants whose money may have moved since they were
// last looked at, or who were told something that may no longer hold.
func (s *Service) Concerned(ctx context.Context, q pg.Queryer) ([]ids.Tenant, error) {
	charged, err := s.Metering.Charged(ctx, q)
	if err != nil {
		return nil, err
	}
	rows, err := q.Query(ctx, selectTold)
	if err != nil {
		return nil, fmt.Errorf("listing who was told of money: %w", err)
	}
	warned, err := pgx.CollectRows(rows, pgx.RowTo[ids.Tenant])
	if err != nil {
		return nil, fmt.Errorf("listing who was told of money: %w", err)
	}
	all := slices.Concat(charged, warned)
	slices.SortFunc(all, func(a, b ids.Tenant) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all), nil
}

// Check tells tenants what has become of their money, in tx. Those who use
// something and have nothing left are not touched but returned: letting go holds
// what runs, so Deplete takes them one by one.
func (s *Service) Check(ctx context.Context, tx pgx.Tx, tenants []ids.Tenant) (depleted []ids.Tenant, err error) {
	rows, balances, err := s.hold(ctx, tx, tenants)
	if err != nil {
		return nil, err
	}
	var poor []ids.Tenant
	for _, row := range rows {
		if balances[row.tenant].Minor <= 0 {
			poor = append(poor, row.tenant)
		}
	}
	running, err := s.committed(ctx, tx, poor)
	if err != nil {
		return nil, err
	}
	for _, t := range poor {
		if len(running[t]) > 0 {
			depleted = append(depleted, t)
		}
	}
	rows = slices.DeleteFunc(rows, func(row told) bool { return len(running[row.tenant]) > 0 })
	return depleted, s.tell(ctx, tx, rows, balances, nil)
}

// Deplete lets go of everything of a tenant that has nothing left, and tells it.
// What is so under its row counts: with money again it keeps everything.
func (s *Service) Deplete(ctx context.Context, tx pgx.Tx, tenant ids.Tenant) (released []string, err error) {
	rows, balances, err := s.hold(ctx, tx, []ids.Tenant{tenant})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	if balances[tenant].Minor <= 0 {
		if released, err = s.Running.Deplete(ctx, tx, tenant); err != nil {
			return nil, fmt.Errorf("releasing what %s can no longer pay: %w", tenant, err)
		}
	}
	return released, s.tell(ctx, tx, rows, balances, released)
}

// hold locks what the tenants were told before it reads their balances. So whoever
// adds credit and then has them checked finds either that the credit was seen, or
// what was told without it. A tenant without an account is left out: nothing has
// ever cost it anything.
func (s *Service) hold(ctx context.Context, tx pgx.Tx, tenants []ids.Tenant) ([]told, map[ids.Tenant]ledger.Balance, error) {
	rows, err := lockTold(ctx, tx, tenants)
	if err != nil {
		return nil, nil, err
	}
	balances, err := s.Ledger.Balances(ctx, tx, tenants)
	if err != nil {
		return nil, nil, err
	}
	return slices.DeleteFunc(rows, func(row told) bool {
		_, known := balances[row.tenant]
		return !known
	}), balances, nil
}

// tell states what has changed for each, and keeps that it was stated.
func (s *Service) tell(ctx context.Context, tx pgx.Tx, rows []told, balances map[ids.Tenant]ledger.Balance, released []string) error {
	tenants := make([]ids.Tenant, len(rows))
	for i, row := range rows {
		tenants[i] = row.tenant
	}
	burns, err := s.Metering.BurnsOf(ctx, tx, tenants) // of what was just released nothing burns any more
	if err != nil {
		return err
	}
	names, err := s.Identity.TenantNames(ctx, tx, tenants)
	if err != nil {
		return err
	}
	var turns []turn
	for _, row := range rows {
		t := turn{told: row, currency: balances[row.tenant].Currency, released: released, Reading: Reading{
			Balance: balances[row.tenant].Minor, Burn: burns[row.tenant], Released: len(released) > 0, Now: row.now,
			Terms: terms(s.Policy(row.tenant, names[row.tenant], ids.Project{})),
		}}
		if t.next, t.notices = Next(row.State, t.Reading); t.next != row.State || len(t.notices) > 0 {
			turns = append(turns, t)
		}
	}
	if len(turns) == 0 {
		return nil
	}
	return s.state(ctx, tx, turns)
}

// state queues the facts of all turns, and what was told with them.
func (s *Service) state(ctx context.Context, tx pgx.Tx, turns []turn) error {
	var pending []ids.Tenant
	for _, t := range turns {
		if slices.Contains(t.notices, ReleasePending) {
			pending = append(pending, t.tenant)
		}
	}
	running, err := s.committed(ctx, tx, pending)
	if err != nil {
		return err
	}
	b := &pgx.Batch{}
	for _, t := range turns {
		t.running = running[t.tenant]
		for _, n := range t.notices {
			t.sequence++
			subject, payload := t.fact(n)
			s.queueTold(b, t.tenant, t.sequence, subject, payload)
		}
		b.Queue(updateNotices, t.tenant, t.next.LowSince, t.next.LowToldAt, t.next.PendingSince, t.next.ReleasesAt, t.next.DepletedAt, t.sequence)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("telling tenants of their money: %w", err)
	}
	return nil
}

// committed asks only where there is somebody to ask about: in most passes nobody
// is short of money.
func (s *Service) committed(ctx context.Context, tx pgx.Tx, tenants []ids.Tenant) (map[ids.Tenant][]string, error) {
	if len(tenants) == 0 {
		return nil, nil //nolint:nilnil // a map that is only read
	}
	return s.Running.Committed(ctx, tx, tenants)
}

func terms(v policies.View) Terms {
	return Terms{
		Threshold: v.Minor(policies.BillingLowBalanceThresholdMinor),
		Reminder:  time.Duration(v.Int(policies.BillingLowBalanceReminderHours)) * time.Hour,
		Grace:     time.Duration(v.Int(policies.BillingAutoReleaseGraceMinutes)) * time.Minute,
	}
}
