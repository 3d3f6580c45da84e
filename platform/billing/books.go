package billing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/platform/ledger"
	"github.com/gpuaas/gpuaas/platform/metering"
)

// Books is the result of a check of three packages against each other: usage in metering, payments in
// payment, and the entries of both in the ledger.
type Books struct {
	Ledger   ledger.Report
	Ticks    int                   // of use that were charged again
	Usage    []metering.Difference // between use and what was booked of it
	Payments []PaymentDifference   // between payments and what was booked of them
}

// PaymentDifference is a tenant whose payments are not its top-ups.
type PaymentDifference struct {
	Tenant       ids.Tenant
	Paid, Booked money.Minor
	Currency     string
}

// examined is the period of usage that is rated again. It covers some checks that did not run. Seals
// protect older entries.
const examined = 48 * time.Hour

// Examine derives every balance from its first entry, the charges of the last two
// days from what was used, and the top-ups from what was paid. It reads everything.
func (s *Service) Examine(ctx context.Context) (b Books, err error) {
	verified, err := s.Ledger.Verify(ctx, ids.Tenant{})
	if err != nil {
		return b, err
	}
	if b, err = s.Compare(ctx); err != nil {
		return b, err
	}
	b.Ledger = verified
	if s.Metrics != nil {
		s.Metrics.set(b)
	}
	return b, nil
}

// Compare is Examine without the ledger's own chains.
func (s *Service) Compare(ctx context.Context) (b Books, err error) {
	now := s.Clock.Now()
	if b.Ticks, b.Usage, err = s.Metering.Compare(ctx, now.Add(-examined), now); err != nil {
		return b, err
	}
	b.Payments, err = s.comparePayments(ctx)
	return b, err
}

// comparePayments reads both tables in one snapshot, because a credit may commit between two reads.
func (s *Service) comparePayments(ctx context.Context) (found []PaymentDifference, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY`); err != nil {
			return fmt.Errorf("beginning to compare payments: %w", err)
		}
		booked, err := s.Ledger.Totals(ctx, tx, ledger.TopUp)
		if err != nil {
			return err
		}
		paid, err := s.Payments.Totals(ctx, tx)
		found = apart(paid, booked)
		return err
	})
	return found, err
}

// apart is pure: whose sums differ.
func apart(paid, booked map[ids.Tenant]ledger.Balance) (found []PaymentDifference) {
	for tenant, p := range paid {
		if b := booked[tenant]; b != p {
			found = append(found, PaymentDifference{Tenant: tenant, Paid: p.Minor, Booked: b.Minor, Currency: p.Currency})
		}
	}
	for tenant, b := range booked {
		if _, known := paid[tenant]; !known {
			found = append(found, PaymentDifference{Tenant: tenant, Booked: b.Minor, Currency: b.Currency})
		}
	}
	slices.SortFunc(found, func(a, b PaymentDifference) int { return strings.Compare(a.Tenant.String(), b.Tenant.String()) })
	return found
}

// Whole reports that no difference was found.
func (b Books) Whole() bool { return b.Ledger.OK() && len(b.Usage) == 0 && len(b.Payments) == 0 }

// Mismatch returns the absolute difference of all checks, by currency. It is zero for a currency without
// a difference.
func (b Books) Mismatch() map[string]money.Minor {
	sums, currency := map[string]money.Minor{}, map[uuid.UUID]string{}
	for _, c := range b.Ledger.Chains {
		currency[c.Account] = c.Currency
		sums[c.Currency] += size(c.Balance - c.Derived)
	}
	for _, d := range b.Usage {
		sums[currency[d.Account]] += size(d.Used - d.Charged)
	}
	for _, d := range b.Payments {
		sums[d.Currency] += size(d.Paid - d.Booked)
	}
	for _, f := range b.Ledger.Faults {
		if f.Wrong == ledger.TransferUnbalanced && f.Minor != 0 {
			sums[currency[f.Account]] += size(f.Minor) // of none where its entries are of several
		}
	}
	return sums
}

func size(m money.Minor) money.Minor { return max(m, -m) }

// Faults describes each difference in one sentence.
func (b Books) Faults() (all []string) {
	for _, f := range b.Ledger.Faults {
		all = append(all, fmt.Sprintf("ledger: %s: account %s of tenant %s, transfer %s, entries %d to %d, difference %d",
			f.Wrong, cmp.Or(f.Name, f.Account.String()), f.Tenant, f.Transfer, f.After+1, f.UpTo, f.Minor))
	}
	for _, d := range b.Usage {
		if d.Allocation == (ids.Allocation{}) {
			all = append(all, fmt.Sprintf("usage: files of project %s cost %d and were charged %d in the tick up to %s",
				d.Project, d.Used, d.Charged, d.Tick.To.Format(time.RFC3339)))
			continue
		}
		all = append(all, fmt.Sprintf("usage: allocation %s used %d and was charged %d in the tick up to %s",
			d.Allocation, d.Used, d.Charged, d.Tick.To.Format(time.RFC3339)))
	}
	for _, d := range b.Payments {
		all = append(all, fmt.Sprintf("payments: tenant %s paid %d and was credited %d %s", d.Tenant, d.Paid, d.Booked, d.Currency))
	}
	return all
}
