package fleet

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// ProofKey is the public key that the node enrolled with, by which it signs what it
// proves; empty when it enrolled without one.
func (*Service) ProofKey(ctx context.Context, tx pgx.Tx, node ids.Node) (key []byte, err error) {
	err = tx.QueryRow(ctx, selectProofKey, node).Scan(&key)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading proof key of %s: %w", node, err)
	}
	return key, nil
}
