package nodeapi

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/failpoint"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/restore"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/nodehealth"
	"github.com/gpuaas/gpuaas/product/slots"
	"github.com/gpuaas/gpuaas/protocol"
)

// Intake stores the messages of nodes. Each message is one transaction over the observed state, the
// state of the node, and the due set.
type Intake struct {
	DB           pg.Pool
	Tasks        *nodetask.Store
	Observed     *observed.Store
	Inventory    *nodehealth.Service
	Certificates *secret.Certificates
	Hints        *hint.Bus
	Clock        clock.Clock
	Log          *slog.Logger
	Metrics      *Metrics
	// Restore is closed while a restore of the database is not confirmed: nodes then get no tasks. Nil is open.
	Restore *restore.Gate
	// StaleAfter is the time until a report is stale: the report period times
	// node.stale_after_reports.
	StaleAfter func(ids.Node) time.Duration
}

// Next returns the oldest waiting task of each node that has one.
func (i *Intake) Next(ctx context.Context, nodes ...ids.Node) (map[ids.Node]protocol.Signed, error) {
	if i.Restore.Closed() {
		return map[ids.Node]protocol.Signed{}, nil
	}
	return i.Tasks.Next(ctx, nodes...)
}

// Step records progress of a running task.
func (i *Intake) Step(ctx context.Context, node ids.Node, task ids.Task, p protocol.Progress) error {
	return i.Tasks.Step(ctx, node, task, p)
}

// Finish records the result of a task. A failed result is also stored with the observed state, so
// that the next plan includes it. The effect of a successful task appears in the next report.
func (i *Intake) Finish(ctx context.Context, node ids.Node, r protocol.Result) error {
	err := pgx.BeginFunc(ctx, i.DB, func(tx pgx.Tx) error {
		first, err := i.Tasks.Finish(ctx, tx, node, r)
		if err != nil || !first || r.Outcome == protocol.Succeeded || r.Allocation == (ids.Allocation{}) {
			return err
		}
		return i.Observed.Failed(ctx, tx, node, r)
	})
	if err != nil {
		return err
	}
	failpoint.Hit("nodeapi.result.after_commit")
	i.Hints.Send(desired.HintDue)
	return nil
}

// Report stores a node's report and, if it contains changes, updates the resources that depend on
// it. Most reports contain no changes and need no transaction.
func (i *Intake) Report(ctx context.Context, node ids.Node, r protocol.Report) error {
	if err := i.checkLimits(r); err != nil {
		return err
	}
	if err := i.Restore.Record(ctx, node, r); err != nil {
		return err
	}
	if taken, err := i.Observed.Leases.Again(ctx, node, r); err != nil || taken {
		i.record(ctx, node, r, err)
		return err
	}
	var changed bool
	var contests []fleet.Contest
	err := pgx.BeginFunc(ctx, i.DB, func(tx pgx.Tx) (err error) {
		if err := i.checkOrigin(ctx, tx, node, &r); err != nil {
			return err
		}
		if err := i.ownAllocations(ctx, tx, node, &r); err != nil {
			return err
		}
		if err := i.proven(ctx, tx, node, &r); err != nil {
			return err
		}
		if changed, err = i.Observed.Report(ctx, tx, node, r, i.StaleAfter(node)); err != nil || !changed {
			return err
		}
		if contests, err = i.Inventory.Contest(ctx, tx, node, r); err != nil {
			return err
		}
		if err := i.Inventory.ApplyReport(ctx, tx, node, r); err != nil {
			return err
		}
		if err := i.Inventory.ApplyAgent(ctx, tx, node, r); err != nil {
			return err
		}
		failpoint.Hit("nodeapi.report.before_commit")
		return nil
	})
	if err != nil {
		return err
	}
	if err := i.Observed.Leases.Store(node, r); err != nil {
		return err
	}
	i.record(ctx, node, r, nil)
	i.contested(ctx, node, contests)
	if changed {
		failpoint.Hit("nodeapi.report.after_commit")
		i.Hints.Send(desired.HintDue)
		i.Hints.Send(slots.HintSlots)
	}
	return nil
}

// record stores the readings of an accepted report. No decision rests on them, so a failure rejects no report.
func (i *Intake) record(ctx context.Context, node ids.Node, r protocol.Report, rejected error) {
	if rejected != nil {
		return
	}
	if err := i.Observed.Telemetry.Record(ctx, node, r); err != nil {
		i.Log.WarnContext(ctx, "readings are not stored", "component", "nodeapi", "node_id", node, "err", err)
	}
}
