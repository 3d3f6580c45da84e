package nodetask

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// LastApplied is what the host was last told of a login and has carried out, below
// fence: the provisioning with what later rotations changed of it. It is not ok
// when the last order did not succeed, when something was ordered at the fence
// already, or when the orders are no longer kept; then everything is ordered.
func (s *Store) LastApplied(ctx context.Context, tx pgx.Tx, id ids.Allocation, fence int64) (p protocol.ProvisionUserParams, ok bool, err error) {
	rows, err := tx.Query(ctx, selectLastApplied, id)
	if err != nil {
		return p, false, fmt.Errorf("reading what stands: %w", err)
	}
	orders, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ordered])
	if err != nil {
		return p, false, fmt.Errorf("reading what stands: %w", err)
	}
	if len(orders) == 0 || orders[0].Fence >= fence || orders[0].Status != "succeeded" {
		return p, false, nil
	}
	var last *protocol.RotateKeysParams
	for _, o := range orders {
		if o.Status != "succeeded" {
			continue
		}
		switch o.Type {
		case protocol.RotateKeys:
			if last != nil {
				continue
			}
			last = &protocol.RotateKeysParams{}
			if err := o.read(last); err != nil {
				return p, false, err
			}
		case protocol.ProvisionUser:
			if err := o.read(&p); err != nil {
				return p, false, err
			}
			if last != nil {
				p.PublicKeys, p.UserCA, p.Revoked = last.PublicKeys, last.UserCA, last.Revoked
			}
			return p, true, nil
		case protocol.RevokeUser, protocol.Probe, protocol.HealthCheck, protocol.GPUReset, protocol.AgentUpdate:
			return p, false, nil
		}
	}
	return p, false, nil
}

type ordered struct {
	Type   protocol.Type
	Fence  int64
	Status string
	Body   []byte
}

func (o ordered) read(params any) error {
	var e protocol.Envelope
	if err := json.Unmarshal(o.Body, &e); err != nil {
		return fmt.Errorf("reading an order of ours: %w", err)
	}
	if err := json.Unmarshal(e.Params, params); err != nil {
		return fmt.Errorf("reading an order of ours: %w", err)
	}
	return nil
}
