package nodetask

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/protocol"
)

// LastApplied returns what the node has applied of a login below fence: the last provisioning with the
// change of the latest rotation. ok is false if the last task did not succeed, if a task with the fence
// exists already, or if the mailbox does not contain a provisioning that this build can read. The caller
// then queues a whole provisioning. Rotations without a result do not count: the next rotation replaces
// all that they change.
func (s *Store) LastApplied(ctx context.Context, tx pgx.Tx, id ids.Allocation, fence int64) (p protocol.ProvisionUserParams, ok bool, err error) {
	rows, err := tx.Query(ctx, selectLastApplied, id)
	if err != nil {
		return p, false, fmt.Errorf("reading the last applied tasks: %w", err)
	}
	tasks, err := pgx.CollectRows(rows, pgx.RowToStructByPos[queuedTask])
	if err != nil {
		return p, false, fmt.Errorf("reading the last applied tasks: %w", err)
	}
	if len(tasks) == 0 || tasks[0].Fence >= fence {
		return p, false, nil
	}
	for len(tasks) > 0 && tasks[0].isOpenRotation() {
		tasks = tasks[1:]
	}
	if len(tasks) == 0 || tasks[0].Status != "succeeded" {
		return p, false, nil
	}
	var amendment *protocol.Envelope
	for _, t := range tasks {
		// A failed rotation left the login as it was. The successful tasks before it describe it.
		if t.Status != "succeeded" {
			continue
		}
		var e protocol.Envelope
		if err := json.Unmarshal(t.Body, &e); err != nil {
			return p, false, fmt.Errorf("decoding a task of the mailbox: %w", err)
		}
		switch t.Type.Effect() {
		case protocol.Amends:
			if amendment == nil { // the latest one replaces those before it
				amendment = &e
			}
		case protocol.Provisions:
			p, err := protocol.Applied(e, amendment)
			return p, err == nil, nil // another build may have written parameters that this one rejects
		case protocol.Releases, protocol.NoEffect:
			return p, false, nil
		}
	}
	return p, false, nil
}

// queuedTask is a row of the mailbox with the signed bytes of its envelope.
type queuedTask struct {
	Type   protocol.Type
	Fence  int64
	Status string
	Body   []byte
}

func (t queuedTask) isOpenRotation() bool {
	return t.Type.Effect() == protocol.Amends && slices.Contains([]string{"queued", "delivered", "running", "superseded"}, t.Status)
}
