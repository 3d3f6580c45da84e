package fleet

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/services"
)

// NodeParts combines what several services know of a node.
type NodeParts struct {
	*services.Services

	Tasks     *nodetask.Store
	Installer fleet.Installer
}

// ObservedOf reads the state of a node in the other services.
func (m NodeParts) ObservedOf(ctx context.Context, n fleet.Node, tasks int) (seen ObservedNode, err error) {
	if seen.Tasks, err = m.Tasks.Last(ctx, n.ID, tasks); err != nil {
		return seen, err
	}
	o, err := m.Desired.Get(ctx, desired.KindNode, "", n.Name)
	switch {
	case err == nil && o.UID.UUID == n.ID.UUID:
		seen.Object = &o
	case err != nil && errs.CodeOf(err) != errs.NotFound:
		return seen, err
	}
	report, err := m.Observed.Node(ctx, n.ID)
	switch {
	case err == nil:
		seen.ReportedAt, seen.Agent = &report.ObservedAt, report.Agent
	case errs.CodeOf(err) != errs.NotFound:
		return seen, err
	}
	seen.Certificates, err = m.Certificates.Of(ctx, n.ID)
	return seen, err
}

const (
	// probeTimeout limits the wait of a probe request for the node.
	probeTimeout = 10 * time.Second
	// probePoll is the interval between two reads of the task meanwhile.
	probePoll = 100 * time.Millisecond
)

// Probe enqueues a probe of the node and waits for its report. A probe that is in the mailbox
// already serves both requests.
func (m NodeParts) Probe(ctx context.Context, c identity.Caller, n fleet.Node) error {
	var requested time.Time
	err := pgx.BeginFunc(ctx, m.DB, func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`SELECT now()`).QueryRow(func(row pgx.Row) error { return row.Scan(&requested) }) // results carry the database's clock
		audit.Queue(b, m.entry(c, "node.probe", n.ID))
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		_, err := m.Queue.InsertTx(ctx, tx, reconciler.ProbeNode{Node: n.ID, RequestID: requested.UnixMicro(), Reason: "requested by " + c.Actor()}, nil)
		return err
	})
	if err != nil {
		return err
	}
	if _, err := m.Observed.Node(ctx, n.ID); errs.CodeOf(err) == errs.NotFound {
		return errs.New(errs.AgentTimeout, "node %s has never reported", n.Name).
			Try("enrol it: gpuaas node re-enrol %s prints the command to run on the node", n.Name)
	}
	return m.awaitProbe(ctx, n, requested)
}

func (m NodeParts) awaitProbe(ctx context.Context, n fleet.Node, requested time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	tick := time.NewTicker(probePoll)
	defer tick.Stop()
	for {
		answered, err := m.Tasks.Probed(ctx, n.ID, requested)
		switch {
		case answered:
			return nil
		case ctx.Err() != nil:
			return errs.New(errs.AgentTimeout, "node %s has not reported within %s", n.Name, probeTimeout).
				Try("check its agent with systemctl status gpuaas-agent on the node; the task stays in its mailbox")
		case err != nil:
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (m NodeParts) entry(c identity.Caller, action string, node ids.Node) audit.Entry {
	return audit.Entry{
		By: c.Cause(), Action: action,
		Target: m.Naming.Name("", "", "node", node.String()).String(),
	}
}
