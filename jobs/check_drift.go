package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/riverjob"
	"github.com/gpuaas/gpuaas/observed"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/reconciler"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// CheckDrift compares the specs that the owning packages store with the desired ones. It records
// differences and marks their objects due; the loop decides about them.
type CheckDrift struct{}

// Kind names the job to River.
func (CheckDrift) Kind() string { return "check_drift" }

// InsertOpts allows one waiting job at most.
func (CheckDrift) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: riverjob.QueueMaintenance, MaxAttempts: 3, UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: riverjob.Unfinished()}}
}

const (
	// comparedAtOnce are read in one snapshot.
	comparedAtOnce = 500
)

type checkDrift struct {
	river.WorkerDefaults[CheckDrift]

	d *Deps
}

// Timeout is for a large fleet, one snapshot a page.
func (w *checkDrift) Timeout(*river.Job[CheckDrift]) time.Duration { return checkWithin }

func (w *checkDrift) Work(ctx context.Context, _ *river.Job[CheckDrift]) error {
	for _, kind := range []desired.Kind{desired.KindPolicy, desired.KindRole, desired.KindSKU, desired.KindOSImage, desired.KindStorageClass, desired.KindNode} {
		for after, more := "", true; more; {
			var moves []plan.Drift
			err := pgx.BeginFunc(ctx, w.d.DB, func(tx pgx.Tx) (err error) {
				after, more, moves, err = w.page(ctx, tx, kind, after)
				return err
			})
			if err != nil {
				return fmt.Errorf("comparing the stored specs of %s: %w", kind, err)
			}
			w.d.countDrift(moves)
		}
	}
	return nil
}

// countDrift is for after the commit.
func (d *Deps) countDrift(moves []plan.Drift) {
	if len(moves) == 0 {
		return
	}
	d.Metrics.Moved(moves)
	d.Hints.Send(event.Topic)
	d.Desired.Hint()
}

// page compares one page of a kind. It reads everything from one snapshot: an object that is
// applied in the meantime would otherwise be reported as drift.
func (w *checkDrift) page(ctx context.Context, tx pgx.Tx, kind desired.Kind, after string) (last string, more bool, moves []plan.Drift, err error) {
	if _, err := tx.Exec(ctx, `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`); err != nil {
		return "", false, nil, fmt.Errorf("taking a snapshot: %w", err)
	}
	objects, err := w.d.Desired.LivePage(ctx, tx, kind, after, comparedAtOnce)
	if err != nil || len(objects) == 0 {
		return "", false, nil, err
	}
	last, more = objects[len(objects)-1].Name, len(objects) == comparedAtOnce
	var now time.Time
	b, keys := &pgx.Batch{}, make([]uuid.UUID, len(objects))
	for i, o := range objects {
		keys[i] = o.UID.UUID
	}
	applied := map[uuid.UUID]observed.Applied{}
	observed.QueueApplied(b, keys, func(a observed.Applied) { applied[a.UID] = a })
	open := reconciler.QueueOpenDrift(b, keys)
	b.Queue(`SELECT now()`).QueryRow(func(row pgx.Row) error { return row.Scan(&now) })
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return "", false, nil, fmt.Errorf("reading applied objects: %w", err)
	}
	differ, err := w.compare(ctx, tx, kind, objects)
	if err != nil {
		return "", false, nil, err
	}
	for _, o := range objects {
		a, compared := applied[o.UID.UUID], differ[o.UID]
		// An object that is not applied yet differs as expected.
		if a.Gone || a.Generation != o.Generation || a.SpecHash != o.SpecHash || compared == nil {
			continue
		}
		moves = append(moves, plan.EvaluateDrift(w.subject(o), *compared, open[o.UID.UUID], plan.OfSpec, now).Moves...)
	}
	if err := w.d.drifts().Write(ctx, tx, moves); err != nil {
		return "", false, nil, err
	}
	return last, more, moves, w.mark(ctx, tx, moves)
}

func (w *checkDrift) subject(o desired.Object) plan.Subject {
	s := plan.Subject{
		Kind: o.Kind, Object: o.UID.UUID, Name: o.Name,
		Rules: plan.RulesOf(o.Kind, o.Annotations[desired.AnnotationDrift], o.Annotations[desired.AnnotationIgnore], w.d.DriftRules()),
	}
	if o.Suspended != nil {
		s.Suspended = &plan.Suspension{}
		if o.Suspended.Until != nil {
			s.Suspended.Until = *o.Suspended.Until
		}
	}
	return s
}

// mark makes the objects with changed drift due.
func (w *checkDrift) mark(ctx context.Context, tx pgx.Tx, moves []plan.Drift) error {
	b := &pgx.Batch{}
	for _, m := range moves {
		b.Queue(`SELECT mark_due($1, $2, now(), 'drift '||$3)`, string(m.Kind), m.Object, string(m.Move))
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("marking what differs: %w", err)
	}
	return nil
}

func (d *Deps) drifts() reconciler.Drifts { return reconciler.Drifts{Naming: d.Naming} }

// differences are by object; a nil entry was not compared.
type differences map[ids.Object]*[]plan.Difference

// compare compares the desired spec of each object with the spec that its domain package has applied.
func (w *checkDrift) compare(ctx context.Context, tx pgx.Tx, kind desired.Kind, objects []desired.Object) (differences, error) {
	switch kind {
	case desired.KindPolicy:
		return w.policies(ctx, tx, objects)
	case desired.KindRole:
		stored, err := w.d.Policies.StoredRoles(ctx, tx, names(objects))
		return forEach(objects, err, func(o desired.Object) (any, bool) {
			operations, exists := stored[o.Name]
			spec := desired.Role{}
			if json.Unmarshal(o.Spec, &spec) == nil {
				spec.Operations = operations // the description is not stored
			}
			return spec, exists
		})
	case desired.KindSKU:
		stored, err := w.d.Catalog.StoredSKUs(ctx, tx, names(objects))
		return forEach(encodedAs[desired.SKU](objects), err, specOf(stored))
	case desired.KindOSImage:
		stored, err := w.d.Catalog.StoredImages(ctx, tx, names(objects))
		all, err := forEach(encodedAs[desired.OSImage](objects), err, specOf(stored))
		return oneDefault(all, objects), err
	case desired.KindStorageClass:
		stored, err := w.d.Catalog.StoredClasses(ctx, tx, names(objects))
		all, err := forEach(encodedAs[desired.StorageClass](objects), err, specOf(stored))
		return oneDefault(all, objects), err
	case desired.KindNode:
		return w.nodes(ctx, tx, objects)
	case desired.KindEnvironment, desired.KindAllocation:
	}
	return nil, fmt.Errorf("no package stores an applied spec of %s", kind)
}

func (w *checkDrift) nodes(ctx context.Context, tx pgx.Tx, objects []desired.Object) (differences, error) {
	nodes := make([]ids.Node, len(objects))
	for i, o := range objects {
		nodes[i] = ids.Node(o.UID)
	}
	stored, err := w.d.NodeHealth.Specs(ctx, tx, nodes)
	all, err := forEach(objects, err, func(o desired.Object) (any, bool) {
		k, exists := stored[ids.Node(o.UID)]
		return k.Spec, exists
	})
	for _, o := range objects {
		if k, exists := stored[ids.Node(o.UID)]; exists && err == nil && k.Name != o.Name {
			*all[o.UID] = append(*all[o.UID], plan.Difference{Field: "spec.name", Desired: o.Name, Observed: k.Name, Cause: edited})
		}
	}
	return all, err
}

// encodedAs encodes the desired specs as the applied ones are: by the Go type of the kind. An object that was
// stored before its kind had a field would differ otherwise in the default of the field.
func encodedAs[Spec any](objects []desired.Object) []desired.Object {
	encoded := slices.Clone(objects)
	for i, o := range encoded {
		var spec Spec
		if json.Unmarshal(o.Spec, &spec) != nil {
			continue // each reports it
		}
		if text, err := json.Marshal(spec); err == nil {
			encoded[i].Spec = text
		}
	}
	return encoded
}

// specOf returns the applied spec of an object by its name.
func specOf(stored map[string]json.RawMessage) func(desired.Object) (any, bool) {
	return func(o desired.Object) (any, bool) {
		spec, exists := stored[o.Name]
		return spec, exists
	}
}

func names(objects []desired.Object) []string {
	list := make([]string, len(objects))
	for i, o := range objects {
		list[i] = o.Name
	}
	return list
}

// oneDefault removes the default flag from the comparison if more than one object sets it. Applying
// one of them resets the others, and so would every healing.
func oneDefault(all differences, objects []desired.Object) differences {
	claims := 0
	for _, o := range objects {
		var s struct{ Default bool }
		if err := json.Unmarshal(o.Spec, &s); err == nil && s.Default {
			claims++
		}
	}
	for _, found := range all {
		if claims > 1 {
			*found = slices.DeleteFunc(*found, func(d plan.Difference) bool { return d.Field == "spec.default" })
		}
	}
	return all
}

const edited = "edited in the database"

// forEach compares the desired spec of every object with the applied one, which read returns. An object without an applied
// spec differs as a whole.
func forEach(objects []desired.Object, err error, read func(desired.Object) (any, bool)) (differences, error) {
	if err != nil {
		return nil, err
	}
	all := differences{}
	for _, o := range objects {
		found := []plan.Difference{}
		applied, exists := read(o)
		if !exists {
			found = append(found, plan.Difference{Field: "spec", Desired: "as desired", Observed: "absent", Cause: edited})
			all[o.UID] = &found
			continue
		}
		text, err := json.Marshal(applied)
		if err != nil {
			return nil, fmt.Errorf("encoding the applied spec of %s: %w", o.Key(), err)
		}
		list, err := desired.Differences(o.Spec, text)
		if err != nil {
			return nil, fmt.Errorf("comparing %s: %w", o.Key(), err)
		}
		for _, d := range list {
			found = append(found, plan.Difference{Field: d.Field, Desired: d.Desired, Observed: d.Applied, Cause: edited})
		}
		all[o.UID] = &found
	}
	return all, nil
}

// setting identifies a value that two objects may both define.
type setting struct {
	key   string
	scope policies.Scope
}

// policies compares values as the definition of their key parses them. If more than one object sets
// a key, the last applied value is in effect. Healing one would break the other for ever, so
// neither is compared.
func (w *checkDrift) policies(ctx context.Context, tx pgx.Tx, objects []desired.Object) (differences, error) {
	keys, scopes := []string{}, []string{}
	for _, o := range objects {
		var s desired.Policy
		if err := json.Unmarshal(o.Spec, &s); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", o.Kind, o.Name, err)
		}
		keys, scopes = append(keys, s.Key), append(scopes, s.Scope)
	}
	rows, err := w.d.Policies.Stored(ctx, tx, keys)
	if err != nil {
		return nil, err
	}
	kept := map[setting]json.RawMessage{}
	for _, r := range rows {
		kept[setting{r.Key, r.Scope}] = r.Value
	}
	declared, err := w.d.Desired.Policies(ctx, tx, keys, scopes)
	if err != nil {
		return nil, err
	}
	claims := map[setting]int{}
	for _, o := range declared {
		var s desired.Policy
		if err := json.Unmarshal(o.Spec, &s); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", o.Kind, o.Name, err)
		}
		claims[setting{s.Key, policies.Scope(s.Scope)}]++
	}
	all := differences{}
	for i, o := range objects {
		at := setting{keys[i], policies.Scope(scopes[i])}
		if claims[at] > 1 {
			continue
		}
		found, err := comparePolicy(o, kept[at])
		if err != nil {
			return nil, err
		}
		all[o.UID] = &found
	}
	return all, nil
}

// comparePolicy compares the value of a policy with the stored one as the definition of its key reads both. A policy
// without a stored value differs as a whole.
func comparePolicy(o desired.Object, stored json.RawMessage) ([]plan.Difference, error) {
	if stored == nil {
		return []plan.Difference{{Field: "spec", Desired: "as desired", Observed: "absent", Cause: edited}}, nil
	}
	var s desired.Policy
	if err := json.Unmarshal(o.Spec, &s); err != nil {
		return nil, fmt.Errorf("reading %s: %w", o.Key(), err)
	}
	var value any
	if err := json.Unmarshal(stored, &value); err == nil {
		want, _ := policies.Check(s.Key, s.Scope, s.Value)
		have, fault := policies.Check(s.Key, s.Scope, value)
		if fault == nil && reflect.DeepEqual(want, have) {
			return []plan.Difference{}, nil
		}
	}
	return []plan.Difference{{Field: "spec.value", Desired: show(s.Value), Observed: string(stored), Cause: edited}}, nil
}

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
