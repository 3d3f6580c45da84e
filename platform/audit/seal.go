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

// stretch bounds how many rows one round of sealing takes, some 20 ms of work
// and 100 kB of seals; a larger transaction is taken whole.
const stretch = 2_000

// ErrRestored means that seals name transactions which this database has not
// begun: it was filled from a dump, and its numbers began anew.
var ErrRestored = errors.New("the seals are ahead of the database's transactions: it was filled from a dump")

// Seal seals every row whose transaction is over, and all that began before it.
// It may run at any time, by any number of processes; they take turns. A crash
// loses at most the round that was under way.
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

func (s *Service) round(ctx context.Context, most int) (more bool, err error) {
	err = pgx.BeginFunc(ctx, s.DB, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockSeals); err != nil {
			return err
		}
		// Each statement sees anew what is committed, so also the seals of whoever
		// held the lock before.
		after, ahead, err := sealedTo(ctx, tx)
		if err != nil {
			return err
		}
		if ahead {
			return ErrRestored
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

func sealStretch(ctx context.Context, tx pgx.Tx, after, upTo uint64) error {
	seals := map[ids.Tenant]*seal{}
	rows, err := tx.Query(ctx, selectRows, after, upTo, ids.Tenant{})
	if err != nil {
		return err
	}
	var r row
	_, err = pgx.ForEachRow(rows, r.fields(), func() error {
		if seals[r.tenant] == nil {
			seals[r.tenant] = &seal{tenant: r.tenant, upTo: upTo}
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
	var all, chains [][]byte
	for _, t := range tenants {
		s := seals[t]
		s.total = before[t].total + s.count()
		next := s.follow(before[t].chain)
		totals, all, chains = append(totals, s.total), append(all, s.rows), append(chains, next[:])
	}
	_, err = tx.Exec(ctx, insertSeals, upTo, tenants, totals, all, chains)
	return err
}
