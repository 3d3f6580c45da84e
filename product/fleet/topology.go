package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/protocol"
)

// Topology reads the hardware as last reported whole, and how it differs from what
// was accepted. It is nil before a first report.
func (s *Service) Topology(ctx context.Context, q pg.Queryer, id ids.Node) (t *protocol.Topology, changed string, err error) {
	err = q.QueryRow(ctx, selectTopology, id).Scan(&t, &changed)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, "", errs.New(errs.NotFound, "no such node")
	}
	if err != nil {
		return nil, "", fmt.Errorf("reading topology of %s: %w", id, err)
	}
	return t, changed, nil
}

// LockHardware locks a node and returns its name, the topology that it reported last, and how that
// differs from the accepted hardware. It returns pgx.ErrNoRows for an unknown node.
func (s *Service) LockHardware(ctx context.Context, tx pgx.Tx, id ids.Node) (name string, t *protocol.Topology, changed string, err error) {
	err = tx.QueryRow(ctx, selectHardware, id).Scan(&name, &t, &changed)
	return name, t, changed, err
}
