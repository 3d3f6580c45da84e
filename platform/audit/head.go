package audit

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Head is the last seal of a chain. All sealed rows lead to it.
type Head struct {
	UpTo     uint64    `json:"up_to"` // the last transaction that it covers
	Rows     int64     `json:"rows"`  // from the first one
	Chain    string    `json:"chain"`
	SealedAt time.Time `json:"sealed_at"`
}

const selectHead = `SELECT up_to, total, chain, sealed_at FROM audit_seals WHERE org_id = $1 ORDER BY up_to DESC LIMIT 1`

// Head returns the last seal of a tenant, or of the rows without a tenant. It is false before the first seal.
func (s *Service) Head(ctx context.Context, tenant ids.Tenant) (h Head, found bool, err error) {
	var chain []byte
	switch err := s.DB.QueryRow(ctx, selectHead, tenant.UUID).Scan(&h.UpTo, &h.Rows, &chain, &h.SealedAt); {
	case errors.Is(err, pgx.ErrNoRows):
		return Head{}, false, nil
	case err != nil:
		return Head{}, false, fmt.Errorf("reading the last seal of %s: %w", tenant, err)
	}
	h.Chain, h.SealedAt = hex.EncodeToString(chain), h.SealedAt.UTC()
	return h, true, nil
}
