package change

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/desired/validate"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/gitops/source"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// storedRequest is the request of a plan as it is stored. For a source it contains only the
// difference from the applied tree, so that the size of a plan grows with its change and not with
// the source. Computing the plan again compares the request with the objects of that moment.
type storedRequest struct {
	By string `json:"by,omitempty"` // the requester, if it was a request
	people
	Diverged bool           `json:"diverged,omitempty"`
	Wanted   []want         `json:"wanted"`
	Removed  []desired.Name `json:"removed"`
}

// want stores the spec as text, because its hash covers its bytes.
type want struct {
	Kind        desired.Kind      `json:"kind"`
	Scope       string            `json:"scope,omitempty"`
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Spec        string            `json:"spec"`
	Source      desired.Source    `json:"source"`
}

func requestOf(p Proposal, from Origin) storedRequest {
	a := storedRequest{By: from.Actor, people: peopleOf(from), Diverged: p.Change.Diverged, Wanted: []want{}, Removed: []desired.Name{}}
	objects := p.Requested
	if objects == nil {
		objects = wanted(p.Change.Diff)
	}
	for _, o := range objects {
		a.Wanted = append(a.Wanted, want{o.Kind, o.Scope, o.Name, o.Labels, o.Annotations, string(o.Spec), o.Source})
	}
	for _, o := range p.Change.Diff.Deleted {
		a.Removed = append(a.Removed, o.Key())
	}
	return a
}

// wanted are the objects that a difference writes.
func wanted(d revision.Difference) []desired.Object {
	list := slices.Clone(d.Created)
	for _, p := range slices.Concat(d.Changed, d.Adopted) {
		list = append(list, p.New)
	}
	return list
}

func (a storedRequest) objects() []desired.Object {
	list := make([]desired.Object, len(a.Wanted))
	for i, w := range a.Wanted {
		list[i] = desired.Object{
			Kind: w.Kind, Scope: w.Scope, Name: w.Name, Labels: w.Labels, Annotations: w.Annotations, Spec: []byte(w.Spec),
			SpecHash: desired.Hash([]byte(w.Spec)), Source: w.Source,
		}
	}
	return list
}

// snapshot validates the files of a request.
func (s *Service) snapshot(ctx context.Context, r Request) (revision.Snapshot, error) {
	snap := revision.Snapshot{Source: r.Source, Commit: r.Commit}
	if unsafe := source.Names(r.Files); len(unsafe) > 0 {
		return snap, invalid(unsafe)
	}
	files := r.Files
	if r.Source != "" {
		state, err := s.Desired.SourceByName(ctx, s.DB, r.Source)
		if err != nil {
			return revision.Snapshot{}, err
		}
		snap.Repository, files = state.Repository, within(r.Files, state.Dirs)
		if len(files) == 0 {
			return snap, errs.New(errs.SpecInvalid, "none of the files is in %s, the folder of source %s", strings.Join(state.Dirs, " or "), r.Source).
				At("files").Try("send the files by their paths in the repository")
		}
	}
	result, err := s.Validate(ctx, files)
	if err == nil && r.Source == "" {
		result, err = s.apiObjects(ctx, files, result)
	}
	switch {
	case err != nil:
		return revision.Snapshot{}, fmt.Errorf("validating files: %w", err)
	case len(result.Findings) > 0:
		return revision.Snapshot{}, invalid(result.Findings)
	case len(result.Objects) == 0:
		return revision.Snapshot{}, errs.New(errs.SpecInvalid, "the files contain no object").At("files")
	}
	for i := range result.Objects {
		o := &result.Objects[i]
		o.Source.Owner = desired.OwnerAPI
		if r.Source != "" {
			o.Source.Owner, o.Source.Name, o.Source.Repository, o.Source.Commit = desired.OwnerGit, r.Source, snap.Repository, r.Commit
		}
	}
	snap.Objects, snap.Total = result.Objects, len(result.Objects)
	return snap, nil
}

func invalid(findings []desired.Finding) error {
	return errs.New(errs.SpecInvalid, "%s", findings[0]).At("files").With("findings", findings)
}

// apiObjectsFile is the name of the file with existing objects that the API objects of a request
// refer to. No file of a request can have this name, because validation rejects a backslash.
const apiObjectsFile = `declared\beside.json`

// apiObjects validates API objects together with the existing objects that they name. A source is
// complete by itself, but an API object may refer to any other object.
func (s *Service) apiObjects(ctx context.Context, files map[string][]byte, alone validate.Result) (validate.Result, error) {
	var missing []desired.Name
	for _, f := range alone.Findings {
		if _, quoted, ok := strings.Cut(f.Message, "no SKU is named "); ok && f.Code == desired.CodeUnresolvedReference {
			if name, err := strconv.Unquote(quoted); err == nil {
				missing = append(missing, desired.Name{Kind: desired.KindSKU, Name: name})
			}
		}
	}
	if len(missing) == 0 {
		return alone, nil
	}
	have, err := s.Desired.Named(ctx, s.DB, missing)
	if err != nil || len(have) == 0 {
		return alone, err
	}
	documents := make([]map[string]any, len(have))
	for i, o := range have {
		documents[i] = map[string]any{"apiVersion": "gpuaas/v1alpha1", "kind": o.Kind, "metadata": map[string]any{"name": o.Name}, "spec": o.Spec}
	}
	all := maps.Clone(files)
	if all[apiObjectsFile], err = json.Marshal(documents); err != nil {
		return alone, fmt.Errorf("encoding what is named: %w", err)
	}
	result, err := s.Validate(ctx, all)
	result.Objects = slices.DeleteFunc(result.Objects, func(o desired.Object) bool { return o.Source.Path == apiObjectsFile })
	return result, err
}

// within leaves out what the source does not declare from.
func within(files map[string][]byte, dirs []string) map[string][]byte {
	kept := maps.Clone(files)
	maps.DeleteFunc(kept, func(name string, _ []byte) bool {
		return !slices.ContainsFunc(dirs, func(dir string) bool {
			dir = path.Clean(dir)
			return dir == "." || strings.HasPrefix(path.Clean(name), dir+"/")
		})
	})
	return kept
}

// compare computes what a snapshot would change now.
func (s *Service) compare(ctx context.Context, q pg.Queryer, snap revision.Snapshot) (preview.Change, error) {
	c := preview.Change{Source: snap.Source, Repository: snap.Repository, Commit: snap.Commit, Owner: desired.OwnerGit}
	if snap.Source == "" {
		have, err := s.Desired.Named(ctx, q, names(snap.Objects))
		if err != nil {
			return c, err
		}
		return s.owned(ctx, q, snap.Commit, have, snap.Objects)
	}
	state, err := s.Desired.SourceByName(ctx, q, snap.Source)
	if err != nil {
		return c, err
	}
	c.Base = state.Applied.Commit
	c.Diff, err = s.Desired.Preview(ctx, q, snap)
	return c, err
}

// compareLocked computes what a stored plan would change now. It locks the objects that the API
// owns until the end of the transaction, because the transaction may write them.
func (s *Service) compareLocked(ctx context.Context, tx pgx.Tx, p Stored) (preview.Change, error) {
	snap := revision.Snapshot{
		Source: p.Source, Repository: p.Plan.Repository, Commit: p.Commit, Objects: p.request.objects(), Removed: p.request.Removed,
		Base: p.Plan.Base, Total: p.Plan.Objects,
	}
	if p.Source == "" {
		have, err := s.Desired.LockNamed(ctx, tx, names(snap.Objects))
		if err != nil {
			return preview.Change{}, err
		}
		return s.owned(ctx, tx, p.Commit, have, snap.Objects)
	}
	if snap.Base == "" {
		snap.Base = "nothing" // what is compared is a part, whatever the source stood at
	}
	c, err := s.compare(ctx, tx, snap)
	c.Diverged, c.Signer = p.request.Diverged, p.request.Signer
	return c, err
}

func (s *Service) owned(ctx context.Context, q pg.Queryer, commit string, have, want []desired.Object) (c preview.Change, err error) {
	c = preview.Change{Commit: commit, Owner: desired.OwnerAPI, Diff: owned(have, want)}
	c.Diff.Foreign, err = s.Desired.Conflicts(ctx, q, c.Diff)
	return c, err
}

func names(objects []desired.Object) []desired.Name {
	list := make([]desired.Name, len(objects))
	for i, o := range objects {
		list[i] = o.Key()
	}
	return list
}

// owned compares API objects with the stored ones. Objects that the request does not name stay
// unchanged.
func owned(have, want []desired.Object) (d revision.Difference) {
	there := make(map[desired.Name]desired.Object, len(have))
	for _, o := range have {
		there[o.Key()] = o
	}
	for _, o := range want {
		old, known := there[o.Key()]
		switch {
		case !known:
			d.Created = append(d.Created, o)
		case old.Source.Owner == desired.OwnerGit:
			if !same(old, o) {
				d.Foreign = append(d.Foreign, desired.Finding{
					Code: string(errs.ManagedByGit), Path: o.Source.Path, Line: o.Source.Line, Column: o.Source.Column, Object: o.Key().String(),
					Message: "is managed in Git; edit " + old.Source.String(), Expected: "a name that is free, or the object adopted by the API first",
				})
			}
		case same(old, o):
			d.Unchanged++
		default:
			o.UID = old.UID
			d.Changed = append(d.Changed, revision.Pair{Old: old, New: o})
			d.Unchanged++
		}
	}
	return d
}

func same(a, b desired.Object) bool {
	return a.SpecHash == desired.Hash(b.Spec) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}
