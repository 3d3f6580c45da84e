package reconciler

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuaas/gpuaas/desired"
)

// The stages of a trace in their usual sequence.
const (
	StageRequest  = "request"
	StageDesired  = "desired"
	StagePlan     = "plan"
	StageJob      = "job"
	StageTask     = "task"
	StageObserved = "observed"
	StageDrift    = "drift"
)

var stages = []string{StageRequest, StageDesired, StagePlan, StageJob, StageTask, StageObserved, StageDrift}

// TraceStep is one step in the history of an object.
type TraceStep struct {
	Stage     string
	At        time.Time
	State     string
	Text      string
	Reference string // a correlation id, commit, plan, job or task
}

// Teller returns the newest steps of an object from the rows of one package.
type Teller func(ctx context.Context, o desired.Object, limit int) ([]TraceStep, error)

// Tracer merges the steps of an object from all packages. Each package reads only its own tables.
type Tracer struct {
	History *History
	Desired *desired.Store
	// Others return steps of other packages: requests, jobs, tasks, observations.
	Others []Teller
}

// stepsEach limits the steps of one package. The newest steps explain the present state.
const stepsEach = 50

// Trace returns the history of an object, oldest step first.
func (t *Tracer) Trace(ctx context.Context, kind desired.Kind, scope, name string) (desired.Object, []TraceStep, error) {
	o, err := t.Desired.Last(ctx, kind, scope, name)
	if err != nil {
		return desired.Object{}, nil, err
	}
	steps := []TraceStep{}
	for _, tell := range append([]Teller{t.History.tracePlans, t.History.traceDrift}, t.Others...) {
		some, err := tell(ctx, o, stepsEach)
		if err != nil {
			return desired.Object{}, nil, err
		}
		steps = append(steps, some...)
	}
	slices.SortStableFunc(steps, func(a, b TraceStep) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(slices.Index(stages, a.Stage), slices.Index(stages, b.Stage)))
	})
	return o, steps, nil
}

func (h *History) tracePlans(ctx context.Context, o desired.Object, limit int) ([]TraceStep, error) {
	actions, err := h.Of(ctx, o.UID.UUID, limit)
	if err != nil {
		return nil, err
	}
	steps := make([]TraceStep, len(actions))
	for i, a := range actions {
		steps[i] = TraceStep{Stage: StagePlan, At: a.At, State: "asked", Text: a.describe(), Reference: a.Plan.String()}
		if a.Held != "" {
			steps[i].State = "held"
			steps[i].Text += "; blocked: " + a.Held
		}
	}
	return steps, nil
}

func (a StoredAction) describe() string {
	text := a.Verb
	if a.Event != "" {
		text += " " + a.Event
	}
	return fmt.Sprintf("%s generation %d: %s", text, a.Generation, a.Reason)
}

func (h *History) traceDrift(ctx context.Context, o desired.Object, limit int) ([]TraceStep, error) {
	found, err := h.DriftOf(ctx, o.UID.UUID, limit)
	if err != nil {
		return nil, err
	}
	var steps []TraceStep
	for _, d := range found {
		differs := TraceStep{Stage: StageDrift, At: d.OpenedAt, State: DriftOpen, Text: d.Field + " differs: " + d.Cause, Reference: d.ID.String()}
		if d.Desired != "" || d.Observed != "" {
			differs.Text = fmt.Sprintf("%s is %s, not %s: %s", d.Field, d.Observed, d.Desired, d.Cause)
		}
		steps = append(steps, differs)
		if d.HealedAt != nil {
			steps = append(steps, TraceStep{Stage: StageDrift, At: *d.HealedAt, State: DriftHealed, Text: d.Field + " is as it should be", Reference: d.ID.String()})
		}
	}
	return steps, nil
}
