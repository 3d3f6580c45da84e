package change

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/jobs/nodetask"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/services"
)

// Timeline reads the history of a desired object from all services.
type Timeline struct {
	*services.Services

	Tasks *nodetask.Store
}

// Trace returns the object and the steps that led to its present state, oldest first.
func (t Timeline) Trace(ctx context.Context, kind desired.Kind, scope, name string) (desired.Object, []reconciler.TraceStep, error) {
	tracer := &reconciler.Tracer{
		History: t.History, Desired: t.Desired.Store,
		Others: []reconciler.Teller{t.requests, t.lastWrite, t.jobs, t.tasks, t.reports},
	}
	return tracer.Trace(ctx, kind, scope, name)
}

// requests reads the audit rows. Their targets are resource names, which end in the object's id.
func (t Timeline) requests(ctx context.Context, o desired.Object, limit int) ([]reconciler.TraceStep, error) {
	records, err := t.Audit.Search(ctx, audit.Query{Target: o.UID.String(), Limit: limit})
	if err != nil {
		return nil, err
	}
	steps := make([]reconciler.TraceStep, len(records))
	for i, r := range records {
		steps[i] = reconciler.TraceStep{Stage: reconciler.StageRequest, At: r.At, State: r.Action, Text: r.Actor + " requested " + r.Action, Reference: r.CorrelationID}
	}
	return steps, nil
}

// lastWrite reads the last write of the spec, and its revision.
func (t Timeline) lastWrite(ctx context.Context, o desired.Object, _ int) ([]reconciler.TraceStep, error) {
	w, err := t.Desired.Written(ctx, t.DB, o.UID)
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

// jobs reads the River jobs of the object. River removes completed ones after a day.
func (t Timeline) jobs(ctx context.Context, o desired.Object, limit int) ([]reconciler.TraceStep, error) {
	// The arguments of a job name its object by one of these fields.
	names := river.NamedArgs{}
	for _, name := range []string{"allocation", "node", "object"} {
		text, err := json.Marshal(map[string]string{name: o.UID.String()})
		if err != nil {
			return nil, fmt.Errorf("naming the jobs of %s: %w", o.UID, err)
		}
		names[name] = string(text)
	}
	found, err := t.Queue.JobList(ctx, river.NewJobListParams().First(limit).OrderBy(river.JobListOrderByID, river.SortOrderDesc).
		Where("(args @> @allocation::jsonb OR args @> @node::jsonb OR args @> @object::jsonb)", names))
	if err != nil {
		return nil, fmt.Errorf("reading the jobs of %s: %w", o.UID, err)
	}
	steps := make([]reconciler.TraceStep, len(found.Jobs))
	for i, j := range found.Jobs {
		steps[i] = jobStep(j)
	}
	return steps, nil
}

func jobStep(j *rivertype.JobRow) reconciler.TraceStep {
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

// tasks reads the tasks in the mailboxes of nodes.
func (t Timeline) tasks(ctx context.Context, o desired.Object, limit int) (steps []reconciler.TraceStep, err error) {
	var tasks []nodetask.TaskSummary
	switch o.Kind {
	case desired.KindAllocation:
		tasks, err = t.Tasks.Of(ctx, ids.Allocation(o.UID), limit)
	case desired.KindNode:
		tasks, err = t.Tasks.To(ctx, ids.Node(o.UID), limit)
	case desired.KindEnvironment, desired.KindPolicy, desired.KindRole, desired.KindSKU, desired.KindOSImage, desired.KindStorageClass:
	}
	for _, task := range tasks {
		step := reconciler.TraceStep{
			Stage: reconciler.StageTask, At: task.CreatedAt, State: task.Status, Reference: task.ID.String(),
			Text: fmt.Sprintf("%s at fence %d, attempt %d, to node %s", task.Type, task.Fence, task.Attempt, task.Node),
		}
		if task.Message != "" {
			step.Text += fmt.Sprintf("; %s %s: %s", task.Step, task.Code, task.Message)
		}
		steps = append(steps, step)
	}
	return steps, err
}

// reports reads the last report about the object.
func (t Timeline) reports(ctx context.Context, o desired.Object, _ int) ([]reconciler.TraceStep, error) {
	step := reconciler.TraceStep{Stage: reconciler.StageObserved}
	if o.Kind == desired.KindAllocation {
		a, err := t.Observed.Allocation(ctx, ids.Allocation(o.UID))
		if err != nil {
			return nil, ignoreNotFound(err)
		}
		step.At, step.State, step.Reference = a.ObservedAt, string(a.Phase), a.Node.String()
		step.Text = fmt.Sprintf("the node reports %s at fence %d, generation %d", a.Phase, a.Fence, a.Generation)
		if a.Message != "" {
			step.Text += ": " + a.Message
		}
		return []reconciler.TraceStep{step}, nil
	}
	steps := []reconciler.TraceStep{}
	c, known, err := t.Observed.LastApplied(ctx, o.UID.UUID)
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
	n, err := t.Observed.Node(ctx, ids.Node(o.UID))
	if err != nil {
		return steps, ignoreNotFound(err)
	}
	state := "whole"
	if !n.Complete {
		state = "incomplete"
	}
	return append(steps, reconciler.TraceStep{
		Stage: reconciler.StageObserved, At: n.ObservedAt, State: state, Text: fmt.Sprintf("it reports %d GPUs, by agent %s", len(n.Inventory.GPUs), n.Agent),
	}), nil
}

// ignoreNotFound drops NotFound: an object without a report has no step.
func ignoreNotFound(err error) error {
	if errs.CodeOf(err) == errs.NotFound {
		return nil
	}
	return err
}
