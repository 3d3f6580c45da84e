package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
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
	items, err := s.withState(ctx, objects...)
	if err != nil {
		return nil, err
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
	shown, err := s.withState(ctx, o)
	if err != nil {
		return nil, err
	}
	return oapi.GetDesired200JSONResponse{Body: shown[0], Headers: oapi.GetDesired200ResponseHeaders{ETag: tagOf(o.ResourceVersion)}}, nil
}

// ListRevisions handles GET /api/v1/admin/revisions.
func (s *Server) ListRevisions(ctx context.Context, req oapi.ListRevisionsRequestObject) (oapi.ListRevisionsResponseObject, error) {
	ctx, r := of(ctx)
	var below int64
	if err := s.cursors.open(r, req.Params.Cursor, &below); err != nil {
		return nil, err
	}
	limit := limitOf(req.Params.Limit)
	f := revision.RevisionFilter{Source: or(req.Params.Source, ""), Status: string(or(req.Params.Status, ""))}
	revisions, err := s.Desired.Revisions(ctx, f, below, limit+1)
	if err != nil {
		return nil, err
	}
	revisions, next, link, err := page(s, r, limit, revisions, func(v revision.Revision) any { return v.Revision })
	if err != nil {
		return nil, err
	}
	items, err := s.withCurrent(ctx, revisions...)
	if err != nil {
		return nil, err
	}
	return oapi.ListRevisions200JSONResponse{
		Body:    oapi.RevisionList{Items: items, NextCursor: next},
		Headers: oapi.ListRevisions200ResponseHeaders{Link: link},
	}, nil
}

// GetRevision handles GET /api/v1/admin/revisions/{revision}.
func (s *Server) GetRevision(ctx context.Context, req oapi.GetRevisionRequestObject) (oapi.GetRevisionResponseObject, error) {
	ctx, _ = of(ctx)
	v, err := s.Desired.RevisionAt(ctx, s.DB, req.Revision)
	if err != nil {
		return nil, err
	}
	shown, err := s.withCurrent(ctx, v)
	if err != nil {
		return nil, err
	}
	return oapi.GetRevision200JSONResponse(shown[0]), nil
}

// withCurrent marks the revisions that their sources stand at.
func (s *Server) withCurrent(ctx context.Context, revisions ...revision.Revision) ([]oapi.Revision, error) {
	current, err := s.current(ctx, revisions)
	if err != nil {
		return nil, err
	}
	items := make([]oapi.Revision, len(revisions))
	for i, v := range revisions {
		items[i] = toRevision(v, current[v.Source] == v.Revision)
	}
	return items, nil
}

// current is where each source stands; one without an applied revision nowhere.
func (s *Server) current(ctx context.Context, of []revision.Revision) (map[string]int64, error) {
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
			Source: toSource(o.Source), Suspended: toSuspension(o.Suspended), Adopt: toAdoption(o.Adopt),
		},
		Spec: spec,
	}, nil
}

func toAdoption(a *desired.Adoption) *oapi.Adoption {
	if a == nil {
		return nil
	}
	return &oapi.Adoption{Source: a.Source, Until: a.Until.UTC()}
}

func toSource(p desired.Source) oapi.Source {
	return oapi.Source{
		Owner: oapi.SourceOwner(p.Owner), Source: filled(p.Name), Repository: filled(p.Repository), Commit: filled(p.Commit),
		Path: filled(p.Path), Line: filled(p.Line), Column: filled(p.Column),
	}
}

// withState shows objects with how it stands with them, in one question for all.
func (s *Server) withState(ctx context.Context, objects ...desired.Object) ([]oapi.DesiredObject, error) {
	var seen map[ids.Object]ObjectSeen
	if len(objects) > 0 {
		var err error
		if seen, err = s.Known(ctx, objects); err != nil {
			return nil, err
		}
	}
	items := make([]oapi.DesiredObject, len(objects))
	for i, o := range objects {
		var err error
		if items[i], err = s.toDesired(o); err != nil {
			return nil, err
		}
		at := stateOf(o, seen[o.UID])
		items[i].Status = &at
	}
	return items, nil
}

func shownConditions(list []desired.Condition) []oapi.Condition {
	shown := make([]oapi.Condition, len(list))
	for i, c := range list {
		shown[i] = oapi.Condition{
			Type: oapi.ConditionType(c.Type), Status: oapi.ConditionStatus(c.Status), Reason: oapi.ConditionReason(c.Reason), Message: c.Message,
			ObservedGeneration: c.ObservedGeneration, LastTransitionTime: c.LastTransitionTime.UTC(),
		}
	}
	return shown
}

// objectConditions returns conditions in the spelling of object documents.
func objectConditions(list []desired.Condition) []oapi.ObjectCondition {
	shown := make([]oapi.ObjectCondition, len(list))
	for i, c := range shownConditions(list) {
		shown[i] = oapi.ObjectCondition(c)
	}
	return shown
}

func toRevision(v revision.Revision, current bool) oapi.Revision {
	findings := make([]oapi.Finding, len(v.Findings))
	for i, f := range v.Findings {
		findings[i] = oapi.Finding{
			Path: f.Path, Line: f.Line, Column: f.Column, Object: filled(f.Object), Field: filled(f.Field),
			Message: f.Message, Expected: filled(f.Expected), Code: filled(f.Code),
		}
	}
	waits := make([]oapi.ApprovalReason, len(v.Waits))
	for i, w := range v.Waits {
		waits[i] = oapi.ApprovalReason{Reason: oapi.ApprovalReasonReason(w.Reason), Message: w.Message, Objects: orEmpty(w.Objects)}
	}
	shown := oapi.Revision{
		Revision: v.Revision, Source: v.Source, Repository: filled(v.Repository), Commit: v.Commit, Parent: filled(v.Parent),
		Status: oapi.RevisionStatus(v.Status), Current: current, Objects: v.Objects, Created: v.Created, Changed: v.Changed, Deleted: v.Deleted,
		Adopted: &v.Adopted, Findings: findings, ApprovalReasons: &waits, Author: filled(v.Author), Message: filled(v.Message), Signer: filled(v.Signer),
		CommittedAt: utc(v.CommittedAt), CreatedAt: v.At.UTC(),
	}
	if v.Plan != (ids.Plan{}) {
		shown.PlanId = &v.Plan.UUID
	}
	if !v.UpdatedAt.IsZero() {
		shown.UpdatedAt = utc(&v.UpdatedAt)
	}
	return shown
}
