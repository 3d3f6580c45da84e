package audit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// stretch limits the rows of one round of sealing, about 20 ms of work and 100 kB of seals. A larger
// transaction is sealed as a whole.
const stretch = 2_000

// errRestored means that the seals name transactions that this database has not started. A dump contains
// the seals, but a database that is filled from it numbers its transactions from the beginning.
var errRestored = errors.New("the seals are ahead of the database's transactions: it was filled from a dump")

// Seal seals every row whose transaction has ended, and all rows of earlier transactions. Any number of
// processes may run it at any time; a lock runs them one after the other. A crash loses at most the
// current round.
func (s *Service) Seal(ctx context.Context) error {
	for {
		more, err := s.round(ctx, stretch)
		if err != nil {
			return fmt.Errorf("sealing audit records: %w", err)
		}
		if !more {
			return nil
		}
	}
}

// round seals the next rows in one transaction and reports whether there may be more. The lock makes
// seals of several processes follow one another: two of them would otherwise continue the same
// chain.
func (s *Service) round(ctx context.Context, most int) (more bool, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockSeals); err != nil {
			return err
		}
		// PostgreSQL uses a new snapshot for each statement, so this one reads the seals that the previous
		// owner of the lock has committed.
		after, ahead, err := sealedTo(ctx, tx)
		if err != nil {
			return err
		}
		if ahead {
			return errRestored
		}
		var upTo uint64
		switch err := tx.QueryRow(ctx, selectStretch, after, most).Scan(&upTo); {
		case errors.Is(err, pgx.ErrNoRows):
			return nil
		case err != nil:
			return err
		}
		more = true
		return sealStretch(ctx, tx, after, upTo)
	})
	return more && err == nil, err
}

// sealedTo is the last transaction that is sealed, zero where there is no seal.
func sealedTo(ctx context.Context, q pg.Queryer) (upTo uint64, ahead bool, err error) {
	err = q.QueryRow(ctx, selectSealedTo).Scan(&upTo, &ahead)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return upTo, ahead, err
}

// sealStretch computes the seal of each tenant with rows in (after, upTo] and stores them together,
// so that the sealed range ends at the same transaction for all tenants.
func sealStretch(ctx context.Context, tx pgx.Tx, after, upTo uint64) error {
	seals := map[ids.Tenant]*seal{}
	rows, err := tx.Query(ctx, selectRows, after, upTo, ids.Tenant{})
	if err != nil {
		return err
	}
	var r row
	_, err = pgx.ForEachRow(rows, r.fields(), func() error {
		if seals[r.tenant] == nil {
			seals[r.tenant] = &seal{tenant: r.tenant, upTo: upTo, form: withClient}
		}
		seals[r.tenant].add(&r)
		return nil
	})
	if err != nil {
		return err
	}
	return insert(ctx, tx, upTo, seals)
}

// insert continues the chain of each tenant.
func insert(ctx context.Context, tx pgx.Tx, upTo uint64, seals map[ids.Tenant]*seal) error {
	tenants := slices.Collect(maps.Keys(seals))
	before := map[ids.Tenant]seal{}
	rows, err := tx.Query(ctx, selectHeads, tenants)
	if err != nil {
		return err
	}
	var tenant ids.Tenant
	var total int64
	var chain []byte
	_, err = pgx.ForEachRow(rows, []any{&tenant.UUID, &total, &chain}, func() error {
		before[tenant] = seal{total: total, chain: digest(chain)}
		return nil
	})
	if err != nil {
		return err
	}
	var totals []int64
	var forms []int16
	var all, chains [][]byte
	for _, t := range tenants {
		s := seals[t]
		s.total = before[t].total + s.count()
		next := s.chainAfter(before[t].chain)
		totals, all, chains = append(totals, s.total), append(all, s.rows), append(chains, next[:])
		forms = append(forms, int16(s.form)) //nolint:gosec // one of two constants
	}
	_, err = tx.Exec(ctx, insertSeals, upTo, tenants, totals, all, chains, forms)
	return err
}
