package preview

import (
	"slices"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
)

// meant is a difference as people mean it: in order, and without objects that
// have only moved within their files.
type meant struct {
	created, deleted []desired.Object
	changed, adopted []revision.Pair
}

func meantBy(d revision.Difference) (m meant) {
	m.created = slices.SortedFunc(slices.Values(d.Created), byKey)
	m.deleted = slices.SortedFunc(slices.Values(d.Deleted), func(a, b desired.Object) int { return byKey(b, a) })
	m.adopted = slices.SortedFunc(slices.Values(d.Adopted), byPair)
	m.changed = slices.DeleteFunc(slices.SortedFunc(slices.Values(d.Changed), byPair), same)
	return m
}

func byPair(a, b revision.Pair) int { return byKey(a.New, b.New) }

// steps are in the sequence of applying: by kind, with deletions last and in reverse.
func (m meant) steps() []Step {
	all := make([]Step, 0, min(maxSteps, len(m.created)+len(m.changed)+len(m.adopted)+len(m.deleted)))
	for _, o := range m.deleted {
		all = append(all, step(Delete, o, o, nil))
	}
	for _, p := range m.changed {
		all = append(all, step(Modify, p.Old, p.New, fields(p.Old, p.New)))
	}
	for _, p := range m.adopted {
		all = append(all, step(Adopt, p.Old, p.New, fields(p.Old, p.New)))
	}
	for _, o := range m.created {
		if len(all) >= maxSteps {
			break
		}
		all = append(all, step(Create, desired.Object{}, o, fields(desired.Object{}, o)))
	}
	// Deletions and changes are never left out: creations are the last.
	all = all[:min(len(all), maxSteps)]
	slices.SortStableFunc(all, func(a, b Step) int {
		switch {
		case (a.Action == Delete) != (b.Action == Delete):
			if a.Action == Delete {
				return 1
			}
			return -1
		case a.Action == Delete:
			return 0
		}
		return byKey(desired.Object{Kind: a.Kind, Scope: a.Scope, Name: a.Name}, desired.Object{Kind: b.Kind, Scope: b.Scope, Name: b.Name})
	})
	return all
}

func step(a Action, old, now desired.Object, differ []Field) Step {
	if differ == nil {
		differ = []Field{}
	}
	return Step{
		Action: a, Kind: now.Kind, Scope: now.Scope, Name: now.Name, UID: now.UID.String(), Generation: old.Generation,
		Place: now.Source, Fields: differ,
	}
}
