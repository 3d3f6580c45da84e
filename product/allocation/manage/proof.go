package manage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// ReleaseProof is the proof that ended an allocation, with the key that the node was enrolled with then.
type ReleaseProof struct {
	Document  json.RawMessage // a protocol.Proof
	PublicKey []byte
	ProvedAt  time.Time
}

const selectProof = `SELECT proof, public_key, proved_at FROM release_proofs WHERE allocation_id = $1`

// Proof reads the proof of an allocation of the caller's scope.
func (s *Service) Proof(ctx context.Context, id ids.Allocation) (ReleaseProof, error) {
	rows, err := s.DB.Query(ctx, selectProof, id)
	if err != nil {
		return ReleaseProof{}, fmt.Errorf("reading the proof of %s: %w", id, err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[ReleaseProof])
	if errors.Is(err, pgx.ErrNoRows) {
		return ReleaseProof{}, errs.New(errs.ProofMissing, "no proof has ended this allocation").Try("wait until it is released")
	}
	if err != nil {
		return ReleaseProof{}, fmt.Errorf("reading the proof of %s: %w", id, err)
	}
	return p, nil
}

// VerifyProof checks a proof without the server: the signature of the key, the allocation, that the scan found
// nothing, and that the memory of each GPU was overwritten.
func VerifyProof(document, key []byte, allocation uuid.UUID, gpus []string) error {
	var p protocol.Proof
	if err := json.Unmarshal(document, &p); err != nil {
		return fmt.Errorf("the proof cannot be read: %w", err)
	}
	if err := p.Verify(key, p.Node, ids.From[ids.Allocation](allocation), p.Fence); err != nil {
		return err
	}
	switch {
	case len(p.Leftovers) > 0:
		return fmt.Errorf("the scan found leftovers: %v", p.Leftovers)
	case !p.Clean(gpus):
		return fmt.Errorf("the proof covers the GPUs %v, and the allocation had %v", p.Scrubbed, gpus)
	}
	return nil
}
