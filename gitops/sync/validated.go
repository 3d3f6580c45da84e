package sync

import (
	"context"
	"fmt"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/gitops/source"
)

// validated is a tree without findings: the difference from the cached tree, and all objects if all
// files were read.
type validated struct {
	objects []desired.Object // nil: only delta
	delta   validate.Delta
}

// validate validates the difference from the cached tree, or the whole tree without one.
func (w *watcher) validate(ctx context.Context, t source.Tree) (v validated, findings []desired.Finding, err error) {
	if t.Base != "" && t.Base != w.cached {
		return v, nil, fmt.Errorf("validating %s: the tree %s is read against another than %s", w.spec.Name, t.Base, w.cached)
	}
	result, err := w.cache.Validate(ctx, validate.Input{Tree: t.TreeHash, Files: t.Files, Base: t.Base, Changed: t.Changed, Removed: t.Removed})
	if err != nil {
		return v, nil, fmt.Errorf("validating %s: %w", w.spec.Name, err)
	}
	if len(result.Findings) > 0 {
		return v, result.Findings, nil
	}
	v.delta = *result.Delta
	v.delta.Objects = owned(v.delta.Objects, w.spec, t.Commit)
	if t.Base == "" {
		v.objects = owned(result.Objects, w.spec, t.Commit)
	}
	return v, w.misplaced(v.delta.Objects), nil
}

// within adds the validated tree to a snapshot. It adds only the difference if the difference
// starts at the applied tree and no object of that tree was adopted by the API since then.
func (v validated) within(snap revision.Snapshot, state revision.SourceState) revision.Snapshot {
	snap.Total = v.delta.Total
	if base := v.delta.Base; base != "" && base == state.Applied.TreeHash && !ownershipChanged(state) {
		snap.Base, snap.Objects, snap.Removed = base, v.delta.Objects, v.delta.Removed
		return snap
	}
	snap.Objects = v.objects
	return snap
}

// storeTree makes the applied tree the one that later ones are compared with.
func (w *watcher) storeTree(tree string) {
	w.cache.Commit(tree)
	w.cached = tree
}

// owned sets the source and the commit of objects.
func owned(objects []desired.Object, spec desired.GitSource, commit string) []desired.Object {
	for i := range objects {
		o := &objects[i].Source
		o.Owner, o.Name, o.Repository, o.Commit = desired.OwnerGit, spec.Name, spec.Repository, commit
	}
	return objects
}

// misplaced rejects an Environment outside of the root source.
func (w *watcher) misplaced(objects []desired.Object) (findings []desired.Finding) {
	for _, o := range objects {
		if o.Kind == desired.KindEnvironment && !w.root {
			findings = append(findings, desired.Finding{
				Code: desired.CodeKindNotAllowed, Path: o.Source.Path, Line: o.Source.Line, Column: o.Source.Column, Object: o.Key().String(),
				Message: "this source cannot contain an environment", Expected: "it in the source " + w.Root.Name,
			})
		}
	}
	return findings
}
