package nodeapi

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/protocol"
)

// maxGPUs limits the GPUs of one report.
const maxGPUs = 256

// bootAhead is the tolerated difference between the clocks of a node and of the server: boot numbers
// begin at the time at which the journal of a node was made.
const bootAhead = 24 * time.Hour

// checkLimits rejects a report with more GPUs than a node can have, a boot number that no later report of the node would
// reach, and host keys that no client can read.
func (i *Intake) checkLimits(r protocol.Report) error {
	if limit := i.Clock.Now().Add(bootAhead).Unix(); r.Boot > limit {
		i.Metrics.rejected(reasonBoot, 1)
		return errs.Invalid("boot", "boot number %d is more than a day ahead, at most %d is allowed: correct the clock of the node and enrol it again", r.Boot, limit)
	}
	if n := len(r.Inventory.GPUs); n > maxGPUs {
		i.Metrics.rejected(reasonGPUs, 1)
		return errs.Invalid("inventory.gpus", "the report lists %d GPUs, at most %d are allowed", n, maxGPUs)
	}
	if err := protocol.CheckHostKeys(r.HostKeys); err != nil {
		i.Metrics.rejected(reasonHostKeys, 1)
		return errs.Invalid("host_keys", "%v", err)
	}
	return nil
}

// ownAllocations removes the allocations that were never placed on the node from its report. A node
// with a stolen key could otherwise report the allocations of other nodes as broken or as ready.
func (i *Intake) ownAllocations(ctx context.Context, tx pgx.Tx, node ids.Node, r *protocol.Report) error {
	if len(r.Allocations) == 0 {
		return nil
	}
	of := make([]uuid.UUID, len(r.Allocations))
	for n, a := range r.Allocations {
		of[n] = a.Allocation.UUID
	}
	p, err := i.Inventory.Placed(ctx, tx, node, of)
	if err != nil {
		return err
	}
	unknown, err := i.Restore.Unknown(ctx, tx, node, of)
	if err != nil {
		return err
	}
	if err := i.checkCount(p, unknown, r.Allocations); err != nil {
		return err
	}
	own := slices.DeleteFunc(slices.Clone(r.Allocations), func(a protocol.AllocationReport) bool {
		_, is := p.Ever[a.Allocation.UUID]
		return !is
	})
	if foreign := len(r.Allocations) - len(own); foreign > 0 {
		i.Metrics.rejected(reasonForeign, foreign)
		i.log().WarnContext(ctx, "a node reports allocations that are not placed on it", "node", node, "allocations", foreign)
	}
	r.Allocations = own
	return nil
}

// checkCount rejects a report with more allocations than the node has slots. Allocations that ended on
// this node do not count: the node reports their proofs for days, and their remains if there are any. Neither do those that a
// restored database does not know, and unknown lists them after its confirmation.
func (i *Intake) checkCount(p slots.Placed, unknown []uuid.UUID, reported []protocol.AllocationReport) error {
	if i.Restore.Closed() {
		return nil
	}
	present := 0
	for _, a := range reported {
		if slices.Contains(unknown, a.Allocation.UUID) {
			continue
		}
		_, ever := p.Ever[a.Allocation.UUID]
		_, now := p.Now[a.Allocation.UUID]
		if now || !ever {
			present++
		}
	}
	if present > p.Slots {
		i.Metrics.rejected(reasonAllocations, 1)
		return errs.Invalid("allocations", "the report lists %d allocations, and the node has %d slots", present, p.Slots)
	}
	return nil
}

// log returns the log of the server; without one, nothing is logged.
func (i *Intake) log() *slog.Logger {
	if i.Log != nil {
		return i.Log
	}
	return slog.New(slog.DiscardHandler)
}
