package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/catalog"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/reconciler/plan"
)

// differences are by object; a nil entry was not compared.
type differences map[ids.Object]*[]plan.Difference

// compare reads what the room of a kind keeps of these declarations.
func (w *checkDrift) compare(ctx context.Context, tx pgx.Tx, kind desired.Kind, objects []desired.Object) (differences, error) {
	switch kind {
	case desired.KindPolicy:
		return w.policies(ctx, tx, objects)
	case desired.KindSKU:
		kept, err := w.d.Catalog.Kept(ctx, tx, names(objects))
		return each(objects, err, func(o desired.Object, s desired.SKU) ([]field, bool) {
			k, there := kept[o.Name]
			return skuFields(s, k), there
		})
	case desired.KindOSImage:
		kept, err := w.d.Catalog.KeptImages(ctx, tx, names(objects))
		all, err := each(objects, err, func(o desired.Object, s desired.OSImage) ([]field, bool) {
			k, there := kept[o.Name]
			return imageFields(s, k), there
		})
		return oneDefault(all, objects), err
	case desired.KindNode:
		nodes := make([]ids.Node, len(objects))
		for i, o := range objects {
			nodes[i] = ids.Node(o.UID)
		}
		kept, err := w.d.NodeHealth.Specs(ctx, tx, nodes)
		return each(objects, err, func(o desired.Object, s desired.Node) ([]field, bool) {
			k, there := kept[ids.Node(o.UID)]
			return nodeFields(o.Name, s, k), there
		})
	case desired.KindEnvironment, desired.KindRole, desired.KindAllocation:
	}
	return nil, fmt.Errorf("no room keeps a copy of %s", kind)
}

func names(objects []desired.Object) []string {
	list := make([]string, len(objects))
	for i, o := range objects {
		list[i] = o.Name
	}
	return list
}

// field is one value on both sides, as people read it.
type field struct{ name, desired, kept string }

func skuFields(s desired.SKU, k catalog.SKU) []field {
	return []field{
		{"displayName", s.DisplayName, k.DisplayName},
		{"gpuModel", s.GPUModel, k.GPUModel},
		number("memoryGiB", s.MemoryGiB, k.MemoryGiB),
		{"isolation", s.Isolation, k.Isolation},
		number("maxGPUs", s.MaxGPUs, k.MaxGPUs), truth("active", s.Active, k.Active),
		{"price.currency", s.Price.Currency, k.Currency},
		number("price.amountMinor", s.Price.AmountMinor, int64(k.PriceMinor)),
	}
}

func imageFields(s desired.OSImage, k catalog.Image) []field {
	return []field{{"displayName", s.DisplayName, k.DisplayName}, {"digest", s.Digest, k.Digest}, truth("default", s.Default, k.Default)}
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

func nodeFields(name string, s desired.Node, k fleet.Spec) []field {
	return []field{
		{"name", name, k.Name},
		{"sku", s.SKU, k.SKU},
		{"region", s.Region, k.Region},
		{"onboarding", s.Onboarding, k.Onboarding},
		number("gpus", s.GPUs, k.GPUs),
		{"hardware", s.Hardware, k.Hardware},
		truth("cordoned", s.Cordoned, k.Cordoned),
		{"address", s.Address, k.Address},
	}
}

func number[N int | int64](name string, a, b N) field {
	return field{name, strconv.FormatInt(int64(a), 10), strconv.FormatInt(int64(b), 10)}
}

func truth(name string, a, b bool) field {
	return field{name, strconv.FormatBool(a), strconv.FormatBool(b)}
}

const edited = "edited in the database"

// each compares every object with its row. One that is not there differs as a whole.
func each[T any](objects []desired.Object, err error, row func(desired.Object, T) ([]field, bool)) (differences, error) {
	if err != nil {
		return nil, err
	}
	all := differences{}
	for _, o := range objects {
		var spec T
		if err := json.Unmarshal(o.Spec, &spec); err != nil {
			return nil, fmt.Errorf("reading %s %s: %w", o.Kind, o.Name, err)
		}
		found := []plan.Difference{}
		fields, there := row(o, spec)
		if !there {
			found, fields = []plan.Difference{{Field: "spec", Desired: "as desired", Observed: "absent", Cause: edited}}, nil
		}
		for _, f := range fields {
			if f.desired != f.kept {
				found = append(found, plan.Difference{Field: "spec." + f.name, Desired: f.desired, Observed: f.kept, Cause: edited})
			}
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
	all, err := each(objects, nil, func(_ desired.Object, s desired.Policy) ([]field, bool) {
		raw, there := kept[setting{s.Key, policies.Scope(s.Scope)}]
		return policyFields(s, raw), there
	})
	for i, o := range objects {
		if claims[setting{keys[i], policies.Scope(scopes[i])}] > 1 {
			delete(all, o.UID)
		}
	}
	return all, err
}

func policyFields(s desired.Policy, raw json.RawMessage) []field {
	if raw == nil {
		return nil
	}
	var kept any
	if err := json.Unmarshal(raw, &kept); err != nil {
		return []field{{"value", show(s.Value), string(raw)}}
	}
	want, _ := policies.Check(s.Key, s.Scope, s.Value)
	have, fault := policies.Check(s.Key, s.Scope, kept)
	if fault == nil && reflect.DeepEqual(want, have) {
		return nil
	}
	return []field{{"value", show(s.Value), string(raw)}}
}

func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
