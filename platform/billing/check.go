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

// Concerned lists, by id, the tenants whose balance may have changed since their last check, and those
// with a notice that may no longer apply.
func (s *Service) Concerned(ctx context.Context, q pg.Queryer) ([]ids.Tenant, error) {
	charged, err := s.Metering.Charged(ctx, q)
	if err != nil {
		return nil, err
	}
	rows, err := q.Query(ctx, selectPendingNotices)
	if err != nil {
		return nil, fmt.Errorf("listing the tenants to check: %w", err)
	}
	warned, err := pgx.CollectRows(rows, pgx.RowTo[ids.Tenant])
	if err != nil {
		return nil, fmt.Errorf("listing the tenants to check: %w", err)
	}
	all := slices.Concat(charged, warned)
	slices.SortFunc(all, func(a, b ids.Tenant) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all), nil
}

// Check updates the notices of the tenants in tx. It returns the tenants that use something and have an
// empty balance, and does not change them: a release locks allocations, so the caller runs Deplete in
// one transaction for each tenant.
func (s *Service) Check(ctx context.Context, tx pgx.Tx, tenants []ids.Tenant) (depleted []ids.Tenant, err error) {
	rows, balances, err := s.lockNotices(ctx, tx, tenants)
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
	rows = slices.DeleteFunc(rows, func(row noticeRow) bool { return len(running[row.tenant]) > 0 })
	return depleted, s.notify(ctx, tx, rows, balances, nil, files{})
}

// Deplete releases all active allocations of a tenant with an empty balance and queues the notice.
// Deplete reads the balance under the tenant's notice lock. A credit that commits first prevents the
// release.
func (s *Service) Deplete(ctx context.Context, tx pgx.Tx, tenant ids.Tenant) (released []string, err error) {
	rows, balances, err := s.lockNotices(ctx, tx, []ids.Tenant{tenant})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	if balances[tenant].Minor <= 0 {
		if released, err = s.Running.Deplete(ctx, tx, tenant); err != nil {
			return nil, fmt.Errorf("releasing what %s can no longer pay: %w", tenant, err)
		}
	}
	return released, s.notify(ctx, tx, rows, balances, released, files{})
}

// lockNotices locks the notice rows of the tenants before it reads their balances. A transaction that adds a
// credit and then checks these tenants therefore finds either that this check has read the credit, or
// the notices that it wrote without it. A tenant without an account is left out, because nothing was
// ever charged to it.
func (s *Service) lockNotices(ctx context.Context, tx pgx.Tx, tenants []ids.Tenant) ([]noticeRow, map[ids.Tenant]ledger.Balance, error) {
	rows, err := lockNoticeRows(ctx, tx, tenants)
	if err != nil {
		return nil, nil, err
	}
	balances, err := s.Ledger.Balances(ctx, tx, tenants)
	if err != nil {
		return nil, nil, err
	}
	return slices.DeleteFunc(rows, func(row noticeRow) bool {
		_, known := balances[row.tenant]
		return !known
	}), balances, nil
}

// notify computes the notices of each tenant and stores them with the new notice state.
func (s *Service) notify(ctx context.Context, tx pgx.Tx, rows []noticeRow, balances map[ids.Tenant]ledger.Balance, released []string, gone files) error {
	tenants := make([]ids.Tenant, len(rows))
	for i, row := range rows {
		tenants[i] = row.tenant
	}
	burns, err := s.Metering.BurnsOf(ctx, tx, tenants) // of what was just released nothing burns any more
	if err != nil {
		return err
	}
	all := make([]turn, len(rows))
	for i, row := range rows {
		all[i] = turn{noticeRow: row, currency: balances[row.tenant].Currency, released: released, gone: gone, Reading: Reading{
			Balance: balances[row.tenant].Minor, Burn: burns[row.tenant], Released: len(released) > 0, FilesDeleted: gone.any, Now: row.now,
			Terms: terms(s.Policy(row.tenant, ids.Project{})),
		}}
	}
	if err := s.stored(ctx, tx, all); err != nil {
		return err
	}
	var turns []turn
	for _, t := range all {
		if t.next, t.notices = Next(t.State, t.Reading); t.next != t.State || len(t.notices) > 0 {
			turns = append(turns, t)
		}
	}
	if len(turns) == 0 {
		return nil
	}
	return s.state(ctx, tx, turns)
}

// state queues the events of all turns and stores the notice rows that belong to them.
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
			subject, payload := t.event(n)
			s.queueNotice(b, t.tenant, t.sequence, subject, payload)
		}
		b.Queue(updateNotices, t.tenant, t.next.LowSince, t.next.LowNotifiedAt, t.next.PendingSince, t.next.ReleasesAt, t.next.DepletedAt, t.sequence, t.next.FilesDeleteAt, t.next.FilesNotifiedAt)
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("emitting balance notices: %w", err)
	}
	return nil
}

// committed calls Running only for tenants with a low balance. In most passes there are none.
func (s *Service) committed(ctx context.Context, tx pgx.Tx, tenants []ids.Tenant) (map[ids.Tenant][]string, error) {
	if len(tenants) == 0 {
		return nil, nil //nolint:nilnil // a map that is only read
	}
	return s.Running.Committed(ctx, tx, tenants)
}

func terms(v policies.View) Terms {
	return Terms{
		Threshold:  v.Minor(policies.BillingLowBalanceThresholdMinor),
		Reminder:   time.Duration(v.Int(policies.BillingLowBalanceReminderHours)) * time.Hour,
		Grace:      time.Duration(v.Int(policies.BillingAutoReleaseGraceMinutes)) * time.Minute,
		FilesGrace: time.Duration(v.Int(policies.StorageGraceDays)) * day,
	}
}
