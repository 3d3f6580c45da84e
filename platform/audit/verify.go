package audit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Wrong is the kind of a fault.
type Wrong string

// What Verify finds.
const (
	RowChanged  Wrong = "row_changed"
	RowMissing  Wrong = "row_missing"
	RowInserted Wrong = "row_inserted" // behind a seal that does not know it
	SealBroken  Wrong = "seal_broken"  // it was changed, or one before it is gone
	HeadLost    Wrong = "head_lost"    // no seal leads to the head that was stored elsewhere
)

// Fault is the first fault of a chain.
type Fault struct {
	Wrong Wrong     `json:"wrong"`
	Row   uuid.UUID `json:"row,omitzero"`
	// UpTo and SealedAt name the seal: the last transaction in it, and its time.
	UpTo     uint64    `json:"up_to,omitzero"`
	SealedAt time.Time `json:"sealed_at,omitzero"`
}

// Chain is the result of the check of one tenant's chain.
type Chain struct {
	Tenant ids.Tenant `json:"tenant"` // zeros for the platform's own
	Rows   int64      `json:"rows"`   // that are sealed
	Seals  int        `json:"seals"`
	Head   string     `json:"head"` // the last hash; all rows and seals before it lead to it
	Fault  *Fault     `json:"fault,omitzero"`
}

// Report is the result of Verify.
type Report struct {
	Chains []Chain `json:"chains"`
	// Unsealed rows are newer than the last seal; nothing is promised of them yet.
	Unsealed      int64     `json:"unsealed"`
	UnsealedSince time.Time `json:"unsealed_since"`
	// Archived rows are sealed and only in the archive; Exported is their number when they were exported. Both are zero in
	// a report of one tenant.
	Archived int64 `json:"archived,omitzero"`
	Exported int64 `json:"exported,omitzero"`
}

// OK reports that no chain has a fault.
func (r Report) OK() bool {
	return r.Archived == r.Exported && !slices.ContainsFunc(r.Chains, func(c Chain) bool { return c.Fault != nil })
}

// Verify derives every chain again from its first row and compares it with each seal. The zero tenant
// means all tenants. An attacker who can write all tables can write rows and seals that fit each other;
// only heads that an earlier report named and that were stored elsewhere reveal that. Verify reads all
// rows, one page at a time.
func (s *Service) Verify(ctx context.Context, tenant ids.Tenant, heads []Chain) (Report, error) {
	v := &verifier{chains: map[ids.Tenant]*progress{}}
	for _, h := range heads {
		if tenant == (ids.Tenant{}) || tenant == h.Tenant {
			v.progressOf(h.Tenant).expect(h)
		}
	}
	sealed, _, err := sealedTo(ctx, s.DB)
	if err != nil {
		return Report{}, fmt.Errorf("reading the last seal: %w", err)
	}
	months, exported, err := s.dropped(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("reading exports: %w", err)
	}
	var archived int64
	for after := uint64(0); after < sealed; {
		seals, err := s.seals(ctx, after, sealed, tenant)
		if err != nil {
			return Report{}, fmt.Errorf("reading seals: %w", err)
		}
		p := newPage(seals, sealed)
		p.dropped = months
		if err := s.compare(ctx, p, after, tenant); err != nil {
			return Report{}, fmt.Errorf("reading audit records: %w", err)
		}
		v.addPage(p)
		archived += p.excused
		after = p.last()
	}
	r := Report{Chains: v.report()}
	if tenant == zeroTenant {
		r.Archived, r.Exported = archived, exported
	}
	if err := s.DB.QueryRow(ctx, selectUnsealed, sealed).Scan(&r.Unsealed, &r.UnsealedSince); err != nil {
		return Report{}, fmt.Errorf("counting what is not sealed: %w", err)
	}
	return r, nil
}

var zeroTenant ids.Tenant

// dropped returns the months that are only in the archive, and the number of their rows.
func (s *Service) dropped(ctx context.Context) (months dropped, exported int64, err error) {
	rows, err := s.DB.Query(ctx, selectDropped)
	if err != nil {
		return nil, 0, err
	}
	var month time.Time
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&month, &n}, func() error {
		months, exported = append(months, month.UTC()), exported+n
		return nil
	})
	return months, exported, err
}

// sealsAtOnce bounds a page: at the most some 10 MB, where every seal is full.
const sealsAtOnce = 100

func (s *Service) seals(ctx context.Context, after, to uint64, tenant ids.Tenant) ([]*seal, error) {
	rows, err := s.DB.Query(ctx, selectSeals, after, to, sealsAtOnce, tenant)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(one pgx.CollectableRow) (*seal, error) {
		var l seal
		var chain []byte
		err := one.Scan(&l.upTo, &l.tenant.UUID, &l.total, &l.rows, &chain, &l.at, &l.form)
		copy(l.chain[:], chain)
		return &l, err
	})
}

// compare shows the page its rows. Its seals were read before: all that they
// know of was committed.
func (s *Service) compare(ctx context.Context, p *page, after uint64, tenant ids.Tenant) error {
	rows, err := s.DB.Query(ctx, selectRows, after, p.last(), tenant)
	if err != nil {
		return err
	}
	var r row
	_, err = pgx.ForEachRow(rows, r.fields(), func() error { p.compare(&r); return nil })
	return err
}
