package fleet

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/protocol"
)

// The functions of this file record in the caller's transaction what a node reported of itself.

// GPUHealth is the health of a GPU by all sources.
type GPUHealth struct {
	UUID    string          `json:"uuid"`
	Health  protocol.Health `json:"health"`
	Reasons []string        `json:"reasons"`
	Present bool            `json:"present"`
}

// QueueGPUs adds and updates the GPUs that a node has reported.
func QueueGPUs(b *pgx.Batch, node ids.Node, gpus []protocol.GPU) { b.Queue(putGPUs, node, gpus) }

// QueueGPUHealth stores the health of the GPUs of a node.
func QueueGPUHealth(b *pgx.Batch, node ids.Node, of []GPUHealth) { b.Queue(setCards, node, of) }

// QueueAccepted makes h the accepted hardware of a node.
func QueueAccepted(b *pgx.Batch, node ids.Node, h *protocol.Hardware) {
	b.Queue(acceptHardware, node, h.Fingerprint(), h)
}

// QueueTopology stores the reported topology of a node.
func QueueTopology(b *pgx.Batch, node ids.Node, t *protocol.Topology) { b.Queue(setTopology, node, t) }

// QueueMounts stores what a node lacks to mount stored objects: nothing if it is empty. Nil is an agent that does not report
// it.
func QueueMounts(b *pgx.Batch, node ids.Node, missing *string) { b.Queue(setMounts, node, missing) }

// QueueChanged stores how the hardware of a node differs from what was accepted, and marks the node due.
func QueueChanged(b *pgx.Batch, node ids.Node, changed string) {
	b.Queue(setChanged, node, changed)
	QueueMarkHardware(b, node)
}

// QueueMarkHardware marks a node due after a change of its hardware.
func QueueMarkHardware(b *pgx.Batch, node ids.Node) { b.Queue(markHardware, node) }

// QueueHealth stores the health of a node.
func QueueHealth(b *pgx.Batch, node ids.Node, h protocol.Health, message string) {
	b.Queue(setHealth, node, string(h), message)
}

// QueueReported stores the health of a node that has just reported, and its lifecycle from then on.
func QueueReported(b *pgx.Batch, node ids.Node, h protocol.Health, message, lifecycle string) {
	b.Queue(setReported, node, string(h), message, lifecycle)
}

// Silenced reports whether the reports of a node have stopped, as the control loop recorded it.
func (*Service) Silenced(ctx context.Context, q pg.Queryer, node ids.Node) (silent bool, err error) {
	if err := q.QueryRow(ctx, selectSilenced, node).Scan(&silent); err != nil {
		return false, fmt.Errorf("reading the reachability of %s: %w", node, err)
	}
	return silent, nil
}
