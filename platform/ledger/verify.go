package ledger

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Verify derives every balance again from the first entry and compares it with the reported balance. It
// checks the chain of each account and searches for transfers that do not sum to zero. The zero tenant
// means all accounts; any other means that tenant's balance. An attacker who can write all tables can
// write entries and seals that fit each other; only heads that an earlier report named and that were
// stored elsewhere reveal that. Verify reads all rows in one snapshot and blocks no posting.
func (s *Service) Verify(ctx context.Context, tenant ids.Tenant, heads ...Chain) (Report, error) {
	v := &verifier{tenant: tenant, heads: headsOf(heads, tenant)}
	err := pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		for _, sql := range []string{snapshot, patient} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return v.verify(ctx, tx)
	})
	if err != nil {
		return Report{}, fmt.Errorf("verifying the ledger: %w", err)
	}
	return v.report, nil
}

// Derive is the first part of Verify: it returns each account's balance from the first entry on, next to
// the reported balance.
func (s *Service) Derive(ctx context.Context, q pg.Queryer, tenant ids.Tenant) ([]Chain, error) {
	rows, err := q.Query(ctx, selectDerived, tenantOrNull(BalanceOf(tenant)))
	if err != nil {
		return nil, fmt.Errorf("deriving balances: %w", err)
	}
	chains, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Chain, err error) {
		err = row.Scan(&c.Account, &c.Tenant.UUID, &c.Name, &c.Currency, &c.Entries, &c.Derived, &c.Balance, &c.apart)
		return c, err
	})
	if err != nil {
		return nil, fmt.Errorf("deriving balances: %w", err)
	}
	return chains, nil
}

type verifier struct {
	tenant ids.Tenant
	heads  map[uuid.UUID]map[int64]string // chains that were stored elsewhere, by account and entry
	report Report
}

// verify runs all checks in the snapshot of tx. Transfers that commit meanwhile are in none of them,
// so they cannot appear as a difference.
func (v *verifier) verify(ctx context.Context, tx pgx.Tx) (err error) {
	if v.report.Chains, err = (&Service{}).Derive(ctx, tx, v.tenant); err != nil {
		return err
	}
	for i := range v.report.Chains {
		c := &v.report.Chains[i]
		v.report.Entries += c.Entries
		v.report.Difference = add(v.report.Difference, c.apart)
		switch {
		case c.Name == "":
			v.found(c, Fault{Wrong: AccountMissing, Minor: c.Derived})
		case c.apart != 0:
			v.found(c, Fault{Wrong: BalanceDiffers, Minor: add(c.Balance, -c.Derived)})
		}
	}
	for rest := v.report.Chains; len(rest) > 0; {
		n := portion(rest)
		if err := v.verifyAccounts(ctx, tx, rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	v.missing()
	return v.transfers(ctx, tx)
}

// atOnce limits the entries that one statement sorts, and the seals in memory.
const atOnce = 200_000

// portion returns the number of accounts, at least one, that together have about as many entries as one
// transaction may read.
func portion(chains []Chain) (n int) {
	for left := int64(atOnce); n < len(chains); n++ {
		if left -= chains[n].Entries; left < 0 {
			break
		}
	}
	return max(n, 1)
}

// verifyAccounts walks through neighbouring accounts. It reads the seals before the entries, because a walk compares
// each seal when it reaches the entry after it.
func (v *verifier) verifyAccounts(ctx context.Context, tx pgx.Tx, chains []Chain) error {
	from, to := chains[0].Account, chains[len(chains)-1].Account
	walks := make(map[uuid.UUID]*walk, len(chains))
	for i := range chains {
		c := &chains[i]
		walks[c.Account] = &walk{chain: c, expected: v.heads[c.Account], found: func(f Fault) { v.found(c, f) }}
	}
	if err := eachSeal(ctx, tx, from, to, func(s seal) {
		if w := walks[s.account]; w != nil {
			w.seals = append(w.seals, s)
		}
	}); err != nil {
		return err
	}
	if err := eachLink(ctx, tx, from, to, func(l *link) {
		if w := walks[l.account]; w != nil {
			w.addEntry(l)
		}
	}); err != nil {
		return err
	}
	for i := range chains {
		walks[chains[i].Account].end()
	}
	return nil
}

func eachSeal(ctx context.Context, tx pgx.Tx, from, to uuid.UUID, do func(seal)) error {
	rows, err := tx.Query(ctx, selectSeals, from, to)
	if err != nil {
		return fmt.Errorf("reading checkpoints: %w", err)
	}
	for rows.Next() {
		var s seal
		if err := rows.Scan(&s.account, &s.upTo, &s.balance, &s.chain, &s.at, &s.text); err != nil {
			rows.Close()
			return fmt.Errorf("reading checkpoints: %w", err)
		}
		do(s)
	}
	return rows.Err()
}

func eachLink(ctx context.Context, tx pgx.Tx, from, to uuid.UUID, do func(*link)) error {
	rows, err := tx.Query(ctx, selectLinks, from, to)
	if err != nil {
		return fmt.Errorf("reading entries: %w", err)
	}
	var l link
	_, err = pgx.ForEachRow(rows, []any{&l.account, &l.id, &l.amount, &l.currency, &l.posted, &l.text}, func() error {
		do(&l)
		return nil
	})
	if err != nil {
		return fmt.Errorf("reading entries: %w", err)
	}
	return nil
}

// missing reports the heads whose accounts do not exist any more.
func (v *verifier) missing() {
	for account, head := range v.heads {
		_, there := slices.BinarySearchFunc(v.report.Chains, account, func(c Chain, id uuid.UUID) int { return bytes.Compare(c.Account[:], id[:]) })
		if !there {
			v.found(&Chain{Account: account}, Fault{Wrong: HeadLost, UpTo: slices.Max(slices.Collect(maps.Keys(head)))})
		}
	}
}

// headsOf sorts heads by account and entry, those of a tenant only unless it is zero.
func headsOf(heads []Chain, tenant ids.Tenant) map[uuid.UUID]map[int64]string {
	sorted := map[uuid.UUID]map[int64]string{}
	for _, h := range heads {
		if h.Head == "" || tenant != (ids.Tenant{}) && tenant != h.Tenant {
			continue
		}
		if sorted[h.Account] == nil {
			sorted[h.Account] = map[int64]string{}
		}
		sorted[h.Account][h.UpTo] = h.Head
	}
	return sorted
}

func (v *verifier) transfers(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, selectUnbalanced, tenantOrNull(BalanceOf(v.tenant)), mostFaults+1)
	if err != nil {
		return fmt.Errorf("summing transfers: %w", err)
	}
	var of Chain
	var lost bool
	var f Fault
	_, err = pgx.ForEachRow(rows, []any{&f.Transfer, &lost, &f.Minor, &f.After, &f.UpTo, &of.Account, &of.Tenant.UUID, &of.Name}, func() error {
		f.Wrong = TransferUnbalanced
		if lost {
			f.Wrong = TransferMissing
		}
		f.After = max(f.After-1, 0)
		v.found(&of, f)
		return nil
	})
	if err != nil {
		return fmt.Errorf("summing transfers: %w", err)
	}
	return nil
}

// mostFaults is more than anyone reads; where there are more, all is lost.
const mostFaults = 200

func (v *verifier) found(of *Chain, f Fault) {
	if v.report.More = len(v.report.Faults) >= mostFaults; v.report.More {
		return
	}
	f.Account, f.Tenant, f.Name = of.Account, of.Tenant, of.Name
	v.report.Faults = append(v.report.Faults, f)
}
