package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// differences are by object; a nil entry was not compared.
type differences map[ids.Object]*[]plan.Difference

// compare compares the desired spec of each object with the spec that its domain package has applied.
func (w *checkDrift) compare(ctx context.Context, tx pgx.Tx, kind desired.Kind, objects []desired.Object) (differences, error) {
	switch kind {
	case desired.KindPolicy:
		return w.policies(ctx, tx, objects)
	case desired.KindSKU:
		stored, err := w.d.Catalog.Kept(ctx, tx, names(objects))
		return each(objects, err, func(o desired.Object) (any, bool) {
			k, exists := stored[o.Name]
			return desired.SKU{
				DisplayName: k.DisplayName, GPUModel: k.GPUModel, MemoryGiB: k.MemoryGiB, Isolation: k.Isolation, MaxGPUs: k.MaxGPUs, Active: k.Active,
				Price: desired.Price{Currency: k.Currency, AmountMinor: int64(k.PriceMinor)},
			}, exists
		})
	case desired.KindOSImage:
		stored, err := w.d.Catalog.KeptImages(ctx, tx, names(objects))
		all, err := each(objects, err, func(o desired.Object) (any, bool) {
			k, exists := stored[o.Name]
			return desired.OSImage{DisplayName: k.DisplayName, Digest: k.Digest, Default: k.Default}, exists
		})
		return oneDefault(all, objects), err
	case desired.KindNode:
		return w.nodes(ctx, tx, objects)
	case desired.KindEnvironment, desired.KindRole, desired.KindAllocation:
	}
	return nil, fmt.Errorf("no package stores an applied spec of %s", kind)
}

func (w *checkDrift) nodes(ctx context.Context, tx pgx.Tx, objects []desired.Object) (differences, error) {
	nodes := make([]ids.Node, len(objects))
	for i, o := range objects {
		nodes[i] = ids.Node(o.UID)
	}
	stored, err := w.d.NodeHealth.Specs(ctx, tx, nodes)
	all, err := each(objects, err, func(o desired.Object) (any, bool) {
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

func names(objects []desired.Object) []string {
	list := make([]string, len(objects))
	for i, o := range objects {
		list[i] = o.Name
	}
	return list
}

// oneDefault forgets who is the default where more than one is declared to be: each
// that is carried out takes the word from the others, and so would each healing.
func oneDefault(all differences, objects []desired.Object) differences {
	claims := 0
	for _, o := range objects {
		var s desired.OSImage
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

// each compares the desired spec of every object with the applied one, which read returns. An object without an applied
// spec differs as a whole.
func each(objects []desired.Object, err error, read func(desired.Object) (any, bool)) (differences, error) {
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

// setting is what two declarations may both speak of.
type setting struct {
	key   string
	scope policies.Scope
}

// policies compares values as their key's definition reads them. Where more than one
// declaration sets the same, the last that was carried out holds: healing one would
// break the other, for ever, so neither is compared.
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
