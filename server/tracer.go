package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/reconciler"
)

// tellers are the rooms' parts of an object's story, but for the loop's own.
func (s *set) tellers(queue *river.Client[pgx.Tx]) []reconciler.Teller {
	return []reconciler.Teller{s.tellRequests, s.tellDeclaration, tellJobs(queue), s.tellTasks, s.tellObserved}
}

// tellRequests: who asked. Targets are resource names, which end in the object's id.
func (s *set) tellRequests(ctx context.Context, o desired.Object, limit int) ([]reconciler.TraceStep, error) {
	records, err := s.audited.Search(ctx, audit.Query{Target: o.UID.String(), Limit: limit})
	if err != nil {
		return nil, err
	}
	steps := make([]reconciler.TraceStep, len(records))
	for i, r := range records {
		steps[i] = reconciler.TraceStep{Stage: reconciler.StageRequest, At: r.At, State: r.Action, Text: r.Actor + " requested " + r.Action, Reference: r.CorrelationID}
	}
	return steps, nil
}

// tellDeclaration: what was declared last, and by what.
func (s *set) tellDeclaration(ctx context.Context, o desired.Object, _ int) ([]reconciler.TraceStep, error) {
	w, err := s.desired.Written(ctx, s.db, o.UID)
	if err != nil {
		return nil, err
	}
	step := reconciler.TraceStep{Stage: reconciler.StageDesired, At: w.UpdatedAt, State: "declared", Text: fmt.Sprintf("generation %d, through the API", o.Generation)}
	if o.Source.Owner == desired.OwnerGit {
		step.Text, step.Reference = fmt.Sprintf("generation %d, at %s", o.Generation, o.Source), o.Source.Commit
	}
	if w.Revision > 0 {
		step.State, step.Text = w.Status, fmt.Sprintf("%s, by revision %d of %s: %s", step.Text, w.Revision, cmp.Or(w.Author, "an unknown actor"), w.Message)
	}
	return []reconciler.TraceStep{step}, nil
}

// tellJobs: what the queue holds of its work. What was completed a day ago is gone.
func tellJobs(queue *river.Client[pgx.Tx]) reconciler.Teller {
	return func(ctx context.Context, o desired.Object, limit int) ([]reconciler.TraceStep, error) {
		// A job names what it is about by one of these.
		names := river.NamedArgs{}
		for _, name := range []string{"allocation", "node", "object"} {
			text, err := json.Marshal(map[string]string{name: o.UID.String()})
			if err != nil {
				return nil, fmt.Errorf("naming the jobs of %s: %w", o.UID, err)
			}
			names[name] = string(text)
		}
		found, err := queue.JobList(ctx, river.NewJobListParams().First(limit).OrderBy(river.JobListOrderByID, river.SortOrderDesc).
			Where("(args @> @allocation::jsonb OR args @> @node::jsonb OR args @> @object::jsonb)", names))
		if err != nil {
			return nil, fmt.Errorf("reading the jobs of %s: %w", o.UID, err)
		}
		steps := make([]reconciler.TraceStep, len(found.Jobs))
		for i, j := range found.Jobs {
			steps[i] = tellJob(j)
		}
		return steps, nil
	}
}

func tellJob(j *rivertype.JobRow) reconciler.TraceStep {
	var why struct {
		Reason string `json:"reason"`
	}
	step := reconciler.TraceStep{Stage: reconciler.StageJob, At: j.CreatedAt, State: string(j.State), Text: j.Kind, Reference: fmt.Sprint(j.ID)}
	if err := json.Unmarshal(j.EncodedArgs, &why); err == nil && why.Reason != "" {
		step.Text += ": " + why.Reason
	}
	if n := len(j.Errors); n > 0 {
		step.Text += fmt.Sprintf("; try %d: %s", j.Errors[n-1].Attempt, j.Errors[n-1].Error)
	}
	return step
}

// tellTasks: what nodes were ordered to do.
func (s *set) tellTasks(ctx context.Context, o desired.Object, limit int) (steps []reconciler.TraceStep, err error) {
	var tasks []nodetask.TaskSummary
	switch o.Kind {
	case desired.KindAllocation:
		tasks, err = s.tasks.Of(ctx, ids.Allocation(o.UID), limit)
	case desired.KindNode:
		tasks, err = s.tasks.To(ctx, ids.Node(o.UID), limit)
	case desired.KindEnvironment, desired.KindPolicy, desired.KindRole, desired.KindSKU, desired.KindOSImage:
	}
	for _, t := range tasks {
		step := reconciler.TraceStep{
			Stage: reconciler.StageTask, At: t.CreatedAt, State: t.Status, Reference: t.ID.String(),
			Text: fmt.Sprintf("%s at fence %d, attempt %d, to node %s", t.Type, t.Fence, t.Attempt, t.Node),
		}
		if t.Message != "" {
			step.Text += fmt.Sprintf("; %s %s: %s", t.Step, t.Code, t.Message)
		}
		steps = append(steps, step)
	}
	return steps, err
}

// tellObserved: how it was last seen.
func (s *set) tellObserved(ctx context.Context, o desired.Object, _ int) ([]reconciler.TraceStep, error) {
	step := reconciler.TraceStep{Stage: reconciler.StageObserved}
	if o.Kind == desired.KindAllocation {
		a, err := s.observed.Allocation(ctx, ids.Allocation(o.UID))
		if err != nil {
			return nil, unlessUnseen(err)
		}
		step.At, step.State, step.Reference = a.SeenAt, string(a.Phase), a.Node.String()
		step.Text = fmt.Sprintf("the node reports %s at fence %d, generation %d", a.Phase, a.Fence, a.Generation)
		if a.Message != "" {
			step.Text += ": " + a.Message
		}
		return []reconciler.TraceStep{step}, nil
	}
	steps := []reconciler.TraceStep{}
	c, known, err := s.observed.LastApplied(ctx, o.UID.UUID)
	if err != nil {
		return nil, err
	}
	if known {
		step.At, step.State, step.Text = c.At, "carried_out", fmt.Sprintf("generation %d is applied", c.Generation)
		steps = append(steps, step)
	}
	if o.Kind != desired.KindNode {
		return steps, nil
	}
	n, err := s.observed.Node(ctx, ids.Node(o.UID))
	if err != nil {
		return steps, unlessUnseen(err)
	}
	state := "whole"
	if !n.Complete {
		state = "incomplete"
	}
	return append(steps, reconciler.TraceStep{
		Stage: reconciler.StageObserved, At: n.SeenAt, State: state, Text: fmt.Sprintf("it reports %d GPUs, by agent %s", len(n.Inventory.GPUs), n.Agent),
	}), nil
}

// unlessUnseen: what nobody has seen has no step, and that is no failure.
func unlessUnseen(err error) error {
	if errs.CodeOf(err) == errs.NotFound {
		return nil
	}
	return err
}
