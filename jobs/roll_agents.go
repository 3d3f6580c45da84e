package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/agentrelease"
	"github.com/gpuaas/gpuaas/product/agentrelease/rollout"
	"github.com/gpuaas/gpuaas/protocol"
)

// RollAgents updates the agents of the nodes to their desired version, ring by ring. It queues
// tasks and reads the results of earlier ones; package rollout decides.
type RollAgents struct{}

// Kind names the job to River.
func (RollAgents) Kind() string { return "roll_agents" }

// InsertOpts allows one waiting job at most: a second one would find nothing to do.
func (RollAgents) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

const (
	// updateWithin is the sum of two minutes to fetch the task, two to download the build over a
	// slow line, and one for the node's own check.
	updateWithin = 5 * time.Minute
	// soakReports is the number of healthy reports before a ring is complete: one minute at the
	// usual interval.
	soakReports = 6
	// patience exceeds the restart of a node.
	patience = 30 * time.Minute
)

type rollAgents struct {
	river.WorkerDefaults[RollAgents]

	d *Deps
}

// Work runs one pass over all rollouts. Nodes are notified after the commit, when their tasks are visible.
func (w *rollAgents) Work(ctx context.Context, job *river.Job[RollAgents]) error {
	policy, err := w.d.Policies.Snapshot(ctx)
	if err != nil {
		return err
	}
	var updated []ids.Node
	var stopped []rollout.Version
	err = riverjob.Finish(ctx, w.d.DB, job, "roll", func(tx pgx.Tx) error {
		updated, stopped, err = w.roll(ctx, tx, policy)
		return err
	})
	if err != nil {
		return err
	}
	for _, node := range updated {
		w.d.Tasks.Hint(node)
	}
	for _, v := range stopped {
		w.d.Log.ErrorContext(ctx, "an update of the agent was stopped", "component", "fleet", "version", v.Version, "ring", v.Ring, "reason", v.Message)
		w.d.Hints.Send(event.Topic)
	}
	return nil
}

// roll runs one pass in tx.
func (w *rollAgents) roll(ctx context.Context, tx pgx.Tx, policy policies.Snapshot) (updated []ids.Node, stopped []rollout.Version, err error) {
	leads, now, err := w.d.Releases.Lead(ctx, tx)
	if err != nil || !leads {
		return nil, nil, err // another worker runs a pass now
	}
	in, updates, err := w.rolloutState(ctx, tx, policy, now)
	if err != nil {
		return nil, nil, err
	}
	plan := in.Plan()
	moves := plan.Moves
	for _, m := range plan.Cancel {
		off, err := w.d.Tasks.CancelQueued(ctx, tx, protocol.AgentUpdate, nodetask.Request{Node: m.Node, Fence: updates[key{m.Node, m.Version}].Fence})
		if err != nil {
			return nil, nil, err
		}
		if off { // otherwise the node has fetched it and will finish it
			moves = append(moves, m)
		}
	}
	if err := w.d.Releases.Moves(ctx, tx, moves, plan.Delete); err != nil {
		return nil, nil, err
	}
	if updated, err = w.queueUpdates(ctx, tx, plan.Requests); err != nil {
		return nil, nil, err
	}
	stopped, err = w.d.Releases.StoreVersions(ctx, tx, plan.Versions)
	return updated, stopped, err
}

type key struct {
	node    ids.Node
	version string
}

// rolloutState reads the input of the decision.
func (w *rollAgents) rolloutState(ctx context.Context, tx pgx.Tx, policy policies.Snapshot, now time.Time) (in rollout.Input, updates map[key]agentrelease.Update, err error) {
	fleet, err := w.d.Releases.Fleet(ctx, tx)
	if err != nil {
		return in, nil, err
	}
	platform := policy.For()
	report := time.Duration(platform.Int(policies.NodeReportSeconds)) * time.Second
	in = rollout.Input{
		Now: now, Percent: int(platform.Int(policies.NodeUpdateRingPercent)), Soak: soakReports * report, Patience: patience,
		Releases: map[rollout.Build]rollout.Release{},
	}
	wanted := []string{}
	for _, m := range fleet {
		wants := policy.For(policies.In(policies.LevelNode, m.Name)).String(policies.NodeAgentVersion)
		if wants != "" && !slices.Contains(wanted, wants) {
			wanted = append(wanted, wants)
		}
		in.Nodes = append(in.Nodes, rollout.Node{
			ID: m.ID, Wants: wants, Has: m.Version, Platform: m.Platform, Health: m.Health, Held: m.Held, Reachable: m.Reachable,
		})
	}
	releases, err := w.d.Releases.Releases(ctx, tx)
	if err != nil {
		return in, nil, err
	}
	for _, r := range releases {
		in.Releases[rollout.Build{Version: r.Version, Platform: r.Platform}] = rollout.Release{Minimum: r.Minimum, ExpiresAt: r.ExpiresAt}
	}
	list, err := w.d.Releases.Updates(ctx, tx, wanted)
	if err != nil {
		return in, nil, err
	}
	in.Rows, updates, err = w.rows(ctx, tx, list)
	return in, updates, err
}

// rows joins the requested updates with the progress of their tasks.
func (w *rollAgents) rows(ctx context.Context, tx pgx.Tx, list []agentrelease.Update) (rows []rollout.Row, updates map[key]agentrelease.Update, err error) {
	requests := make([]nodetask.Request, len(list))
	for i, u := range list {
		requests[i] = nodetask.Request{Node: u.Node, Fence: u.Fence}
	}
	tasks, err := w.d.Tasks.About(ctx, tx, protocol.AgentUpdate, requests)
	if err != nil {
		return nil, nil, err
	}
	updates = make(map[key]agentrelease.Update, len(list))
	for i, u := range list {
		updates[key{u.Node, u.Version}] = u
		task, known := tasks[requests[i]]
		row := rollout.Row{
			Node: u.Node, Version: u.Version, Ring: u.Ring, Status: u.Status, Before: u.Before, UpdatedAt: u.UpdatedAt, Message: u.Message,
			Fetched: known && task.Status != "queued", Lapsed: !known || task.Status == "expired" || task.Status == "superseded" || task.Status == "queued" && task.Late,
		}
		if u.Deadline != nil {
			row.Deadline = *u.Deadline
		}
		if task.Status == "succeeded" || task.Status == "failed" {
			row.Outcome, row.Code = protocol.Outcome(task.Status), task.Code
			if task.Message != "" {
				row.Message = task.Message
			}
		}
		rows = append(rows, row)
	}
	return rows, updates, nil
}

// queueUpdates queues a task for each selected node.
func (w *rollAgents) queueUpdates(ctx context.Context, tx pgx.Tx, requests []rollout.UpdateRequest) (queued []ids.Node, err error) {
	for _, a := range requests {
		r, err := w.d.Releases.Find(ctx, a.Build.Version, a.Build.Platform)
		if err != nil {
			return nil, err
		}
		fence, err := w.d.Tasks.NextFence(ctx, tx, a.Node)
		if err != nil {
			return nil, err
		}
		task := nodetask.Task{Node: a.Node, Type: protocol.AgentUpdate, Fence: fence, Slots: []string{}, Params: r.Params()}
		if err := w.d.Tasks.Put(ctx, tx, task); err != nil {
			return nil, fmt.Errorf("requesting the update of %s to %s: %w", a.Node, a.Build.Version, err)
		}
		if err := w.d.Releases.RecordRequest(ctx, tx, a, fence, updateWithin); err != nil {
			return nil, err
		}
		queued = append(queued, a.Node)
	}
	return queued, nil
}
