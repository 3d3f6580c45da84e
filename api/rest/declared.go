package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// ListDesired handles GET /api/v1/admin/desired/{kind}.
func (s *Server) ListDesired(ctx context.Context, req oapi.ListDesiredRequestObject) (oapi.ListDesiredResponseObject, error) {
	ctx, r := of(ctx)
	var after string
	if err := s.cursors.open(r, req.Params.Cursor, &after); err != nil {
		return nil, err
	}
	limit := limitOf(req.Params.Limit)
	objects, err := s.Desired.List(ctx, desired.Kind(req.Kind), after, limit+1)
	if err != nil {
		return nil, err
	}
	objects, next, link, err := page(s, r, limit, objects, func(o desired.Object) any { return o.Name })
	if err != nil {
		return nil, err
	}
	items := make([]oapi.DesiredObject, len(objects))
	for i, o := range objects {
		if items[i], err = s.toDesired(o); err != nil {
			return nil, err
		}
	}
	return oapi.ListDesired200JSONResponse{
		Body:    oapi.DesiredList{Items: items, NextCursor: next},
		Headers: oapi.ListDesired200ResponseHeaders{Link: link},
	}, nil
}

// GetDesired handles GET /api/v1/admin/desired/{kind}/{name}.
func (s *Server) GetDesired(ctx context.Context, req oapi.GetDesiredRequestObject) (oapi.GetDesiredResponseObject, error) {
	ctx, _ = of(ctx)
	o, err := s.Desired.Get(ctx, desired.Kind(req.Kind), or(req.Params.Scope, ""), req.Name)
	if err != nil {
		return nil, err
	}
	shown, err := s.toDesired(o)
	if err != nil {
		return nil, err
	}
	return oapi.GetDesired200JSONResponse{
		Body:    shown,
		Headers: oapi.GetDesired200ResponseHeaders{ETag: `"` + shown.Metadata.ResourceVersion + `"`},
	}, nil
}

// ListRevisions handles GET /api/v1/admin/revisions.
func (s *Server) ListRevisions(ctx context.Context, req oapi.ListRevisionsRequestObject) (oapi.ListRevisionsResponseObject, error) {
	ctx, r := of(ctx)
	var below int64
	if err := s.cursors.open(r, req.Params.Cursor, &below); err != nil {
		return nil, err
	}
	limit := limitOf(req.Params.Limit)
	revisions, err := s.Desired.Revisions(ctx, desired.RevisionFilter{}, below, limit+1)
	if err != nil {
		return nil, err
	}
	revisions, next, link, err := page(s, r, limit, revisions, func(v desired.Revision) any { return v.Revision })
	if err != nil {
		return nil, err
	}
	current, err := s.current(ctx, revisions)
	if err != nil {
		return nil, err
	}
	items := make([]oapi.Revision, len(revisions))
	for i, v := range revisions {
		items[i] = toRevision(v, current[v.Source] == v.Revision)
	}
	return oapi.ListRevisions200JSONResponse{
		Body:    oapi.RevisionList{Items: items, NextCursor: next},
		Headers: oapi.ListRevisions200ResponseHeaders{Link: link},
	}, nil
}

// current is where each source stands; one without an applied revision nowhere.
func (s *Server) current(ctx context.Context, of []desired.Revision) (map[string]int64, error) {
	at := map[string]int64{}
	for _, v := range of {
		if _, known := at[v.Source]; known {
			continue
		}
		p, err := s.Desired.Pointer(ctx, v.Source)
		if err != nil && errs.CodeOf(err) != errs.NotFound {
			return nil, err
		}
		at[v.Source] = p.Revision
	}
	return at, nil
}

const apiVersion = "gpuaas/v1alpha1"

func (s *Server) toDesired(o desired.Object) (oapi.DesiredObject, error) {
	spec := map[string]any{}
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return oapi.DesiredObject{}, fmt.Errorf("reading the spec of %s %s: %w", o.Kind, o.Name, err)
	}
	urn := s.Naming.Name("", o.Scope, strings.ToLower(string(o.Kind)), o.UID.String())
	return oapi.DesiredObject{
		ApiVersion: apiVersion,
		Kind:       oapi.Kind(o.Kind),
		Metadata: oapi.DesiredMetadata{
			Name: o.Name, Scope: filled(o.Scope), Uid: o.UID.UUID, Urn: urn.String(), Labels: words(o.Labels), Annotations: words(o.Annotations),
			Generation: o.Generation, ResourceVersion: strconv.FormatInt(o.ResourceVersion, 10),
			Source: oapi.Source{
				Owner: oapi.SourceOwner(o.Source.Owner), Repository: filled(o.Source.Repository), Commit: filled(o.Source.Commit),
				Path: filled(o.Source.Path), Line: filled(o.Source.Line), Column: filled(o.Source.Column),
			},
		},
		Spec: spec,
	}, nil
}

func toRevision(v desired.Revision, current bool) oapi.Revision {
	findings := make([]oapi.Finding, len(v.Findings))
	for i, f := range v.Findings {
		findings[i] = oapi.Finding{
			Path: f.Path, Line: f.Line, Column: f.Column, Object: filled(f.Object), Field: filled(f.Field),
			Message: f.Message, Expected: filled(f.Expected),
		}
	}
	return oapi.Revision{
		Revision: v.Revision, Source: v.Source, Commit: v.Commit, Status: oapi.RevisionStatus(v.Status), Current: current,
		Objects: v.Objects, Created: v.Created, Changed: v.Changed, Deleted: v.Deleted, Findings: findings, CreatedAt: v.At.UTC(),
	}
}
