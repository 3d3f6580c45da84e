package change

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// ListDesired handles GET /api/v1/admin/desired/{kind}.
func (s *Handlers) ListDesired(ctx context.Context, req oapi.ListDesiredRequestObject) (oapi.ListDesiredResponseObject, error) {
	ctx, r := request.Of(ctx)
	var after string
	if err := s.Cursors.Open(r, req.Params.Cursor, &after); err != nil {
		return nil, err
	}
	limit := response.PageSize(req.Params.Limit)
	objects, err := s.Desired.List(ctx, desired.Kind(req.Kind), after, limit+1)
	if err != nil {
		return nil, err
	}
	objects, next, link, err := response.CutPage(s.Cursors, r, limit, objects, func(o desired.Object) any { return o.Name })
	if err != nil {
		return nil, err
	}
	items, err := s.ShowWithState(ctx, objects...)
	if err != nil {
		return nil, err
	}
	return oapi.ListDesired200JSONResponse{
		Body:    oapi.DesiredList{Items: items, NextCursor: next},
		Headers: oapi.ListDesired200ResponseHeaders{Link: link},
	}, nil
}

// GetDesired handles GET /api/v1/admin/desired/{kind}/{name}.
func (s *Handlers) GetDesired(ctx context.Context, req oapi.GetDesiredRequestObject) (oapi.GetDesiredResponseObject, error) {
	ctx, _ = request.Of(ctx)
	o, err := s.Desired.Get(ctx, desired.Kind(req.Kind), request.Or(req.Params.Scope, ""), req.Name)
	if err != nil {
		return nil, err
	}
	shown, err := s.ShowWithState(ctx, o)
	if err != nil {
		return nil, err
	}
	return oapi.GetDesired200JSONResponse{Body: shown[0], Headers: oapi.GetDesired200ResponseHeaders{ETag: request.ETag(o.ResourceVersion)}}, nil
}

// ListRevisions handles GET /api/v1/admin/revisions.
func (s *Handlers) ListRevisions(ctx context.Context, req oapi.ListRevisionsRequestObject) (oapi.ListRevisionsResponseObject, error) {
	ctx, r := request.Of(ctx)
	var below int64
	if err := s.Cursors.Open(r, req.Params.Cursor, &below); err != nil {
		return nil, err
	}
	limit := response.PageSize(req.Params.Limit)
	f := revision.RevisionFilter{Source: request.Or(req.Params.Source, ""), Status: string(request.Or(req.Params.Status, ""))}
	revisions, err := s.Desired.Revisions(ctx, f, below, limit+1)
	if err != nil {
		return nil, err
	}
	revisions, next, link, err := response.CutPage(s.Cursors, r, limit, revisions, func(v revision.Revision) any { return v.Revision })
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
func (s *Handlers) GetRevision(ctx context.Context, req oapi.GetRevisionRequestObject) (oapi.GetRevisionResponseObject, error) {
	ctx, _ = request.Of(ctx)
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

// withCurrent encodes revisions, and marks the applied ones.
func (s *Handlers) withCurrent(ctx context.Context, revisions ...revision.Revision) ([]oapi.Revision, error) {
	current, err := s.current(ctx, revisions)
	if err != nil {
		return nil, err
	}
	items := make([]oapi.Revision, len(revisions))
	for i, v := range revisions {
		items[i] = s.toRevision(v, current[v.Source] == v.Revision)
	}
	return items, nil
}

// current returns the applied revision of each source.
func (s *Handlers) current(ctx context.Context, of []revision.Revision) (map[string]int64, error) {
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

// Show encodes an object without its state.
func (s *Handlers) Show(o desired.Object) (oapi.DesiredObject, error) {
	spec := map[string]any{}
	if err := json.Unmarshal(o.Spec, &spec); err != nil {
		return oapi.DesiredObject{}, fmt.Errorf("reading the spec of %s %s: %w", o.Kind, o.Name, err)
	}
	urn := s.Naming.Name("", o.Scope, o.Kind.ResourceType(), o.UID.String())
	return oapi.DesiredObject{
		ApiVersion: apiVersion,
		Kind:       oapi.Kind(o.Kind),
		Metadata: oapi.DesiredMetadata{
			Name: o.Name, Scope: response.OrNil(o.Scope), Uid: o.UID.UUID, Urn: urn.String(), Labels: response.Labels(o.Labels), Annotations: response.Labels(o.Annotations),
			Generation: o.Generation, ResourceVersion: strconv.FormatInt(o.ResourceVersion, 10),
			CreatedAt: o.CreatedAt.UTC(), UpdatedAt: o.UpdatedAt.UTC(),
			Source: ToSource(o.Source), Suspended: toSuspension(o.Suspended), Adopt: toAdoption(o.Adopt),
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

// ToSource encodes where an object is declared.
func ToSource(p desired.Source) oapi.Source {
	return oapi.Source{
		Owner: oapi.SourceOwner(p.Owner), Source: response.OrNil(p.Name), Repository: response.OrNil(p.Repository), Commit: response.OrNil(p.Commit),
		Path: response.OrNil(p.Path), Line: response.OrNil(p.Line), Column: response.OrNil(p.Column),
	}
}

// ShowWithState encodes objects with their state. It reads the state of all objects at once.
func (s *Handlers) ShowWithState(ctx context.Context, objects ...desired.Object) ([]oapi.DesiredObject, error) {
	var seen map[ids.Object]ObservedObject
	if len(objects) > 0 {
		var err error
		if seen, err = s.Objects.ObservedOf(ctx, objects); err != nil {
			return nil, err
		}
	}
	items := make([]oapi.DesiredObject, len(objects))
	for i, o := range objects {
		var err error
		if items[i], err = s.Show(o); err != nil {
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

func (s *Handlers) toRevision(v revision.Revision, current bool) oapi.Revision {
	findings := make([]oapi.Finding, len(v.Findings))
	for i, f := range v.Findings {
		findings[i] = oapi.Finding{
			Path: f.Path, Line: f.Line, Column: f.Column, Object: response.OrNil(f.Object), Field: response.OrNil(f.Field),
			Message: f.Message, Expected: response.OrNil(f.Expected), Code: response.OrNil(f.Code),
		}
	}
	waits := make([]oapi.ApprovalReason, len(v.Waits))
	for i, w := range v.Waits {
		waits[i] = oapi.ApprovalReason{Reason: oapi.ApprovalReasonReason(w.Reason), Message: w.Message, Objects: response.OrEmpty(w.Objects)}
	}
	shown := oapi.Revision{
		Revision: v.Revision, Urn: s.Naming.Name("", "", "revision", strconv.FormatInt(v.Revision, 10)).String(), Source: v.Source, Repository: response.OrNil(v.Repository), Commit: v.Commit, Parent: response.OrNil(v.Parent),
		Status: oapi.RevisionStatus(v.Status), Current: current, Objects: v.Objects, Created: v.Created, Changed: v.Changed, Deleted: v.Deleted,
		Adopted: &v.Adopted, Findings: findings, ApprovalReasons: &waits, Author: response.OrNil(v.Author), Message: response.OrNil(v.Message), Signer: response.OrNil(v.Signer),
		CommittedAt: response.UTC(v.CommittedAt), CreatedAt: v.At.UTC(), UpdatedAt: v.UpdatedAt.UTC(),
	}
	if v.Plan != (ids.Plan{}) {
		shown.PlanId = &v.Plan.UUID
	}
	return shown
}
