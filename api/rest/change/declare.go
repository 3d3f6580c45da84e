package change

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// PutDesired handles PUT /api/v1/admin/desired/{kind}/{name}.
func (s *Handlers) PutDesired(ctx context.Context, req oapi.PutDesiredRequestObject) (oapi.PutDesiredResponseObject, error) {
	ctx, r := request.Of(ctx)
	version, err := request.IfMatch(req.Params.IfMatch, false)
	if err != nil {
		return nil, err
	}
	// Not from the decoded body: its numbers would have been rounded.
	var sent struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(r.Body, &sent); err != nil {
		return nil, errs.Invalid("spec", "is not well-formed").Because(err)
	}
	if version == 0 && request.Or(req.Params.IfMatch, "") != "" {
		// Any version, but one that is there.
		have, err := s.Desired.Get(ctx, desired.Kind(req.Kind), "", req.Name)
		if err != nil {
			return nil, err
		}
		version = have.ResourceVersion
	}
	status := http.StatusOK
	if version == 0 {
		status = http.StatusCreated // or rejected: only a name that is free
	}
	o, err := s.Changes.Put(ctx, s.Idempotent(r, status), change.Write{
		Object: desired.Object{
			Kind: desired.Kind(req.Kind), Name: req.Name, Labels: request.Or(req.Body.Labels, nil), Annotations: request.Or(req.Body.Annotations, nil), Spec: sent.Spec,
		},
		Version: version, DryRun: request.Or(req.Params.DryRun, false),
	})
	if err != nil {
		return nil, err
	}
	shown, err := s.Show(o)
	if err != nil {
		return nil, err
	}
	if status == http.StatusOK {
		return oapi.PutDesired200JSONResponse{Body: shown, Headers: oapi.PutDesired200ResponseHeaders{ETag: request.ETag(o.ResourceVersion)}}, nil
	}
	return oapi.PutDesired201JSONResponse{
		Body: shown, Headers: oapi.PutDesired201ResponseHeaders{ETag: request.ETag(o.ResourceVersion), Location: Location(o)},
	}, nil
}

// DeleteDesired handles DELETE /api/v1/admin/desired/{kind}/{name}.
func (s *Handlers) DeleteDesired(ctx context.Context, req oapi.DeleteDesiredRequestObject) (oapi.DeleteDesiredResponseObject, error) {
	ctx, r := request.Of(ctx)
	version, err := request.IfMatch(req.Params.IfMatch, true)
	if err != nil {
		return nil, err
	}
	shown, err := s.ShowChanged(s.Changes.Delete(ctx, s.Idempotent(r, http.StatusAccepted), named(req.Kind, nil, req.Name), version))
	if err != nil {
		return nil, err
	}
	return oapi.DeleteDesired202JSONResponse{Body: shown}, nil
}

// AdoptDesired handles POST /api/v1/admin/desired/{kind}/{name}/adopt.
func (s *Handlers) AdoptDesired(ctx context.Context, req oapi.AdoptDesiredRequestObject) (oapi.AdoptDesiredResponseObject, error) {
	ctx, r := request.Of(ctx)
	version, err := request.IfMatch(req.Params.IfMatch, false)
	if err != nil {
		return nil, err
	}
	to, source := desired.Owner(req.Body.Owner), request.Or(req.Body.Source, "")
	switch {
	case to == desired.OwnerGit && source == "":
		return nil, errs.Invalid("source", "is missing").Try("name the source that adopts the object")
	case to == desired.OwnerAPI && source != "":
		return nil, errs.Invalid("source", "is valid only with owner git")
	}
	o, err := s.Changes.Adopt(ctx, s.Idempotent(r, http.StatusOK), named(req.Kind, nil, req.Name), to, source, version)
	if err != nil {
		return nil, err
	}
	shown, err := s.Show(o)
	return oapi.AdoptDesired200JSONResponse{Body: shown, Headers: oapi.AdoptDesired200ResponseHeaders{ETag: request.ETag(o.ResourceVersion)}}, err
}

// SuspendDesired handles POST /api/v1/admin/desired/{kind}/{name}/suspend.
func (s *Handlers) SuspendDesired(ctx context.Context, req oapi.SuspendDesiredRequestObject) (oapi.SuspendDesiredResponseObject, error) {
	ctx, r := request.Of(ctx)
	h, err := s.ReadHold(req.Body.Reason, req.Body.Until)
	if err != nil {
		return nil, err
	}
	shown, err := s.ShowChanged(s.Changes.Suspend(ctx, s.Idempotent(r, http.StatusOK), named(req.Kind, req.Params.Scope, req.Name), h.Reason, h.Until))
	if err != nil {
		return nil, err
	}
	return oapi.SuspendDesired200JSONResponse{Body: shown}, nil
}

// ResumeDesired handles POST /api/v1/admin/desired/{kind}/{name}/resume.
func (s *Handlers) ResumeDesired(ctx context.Context, req oapi.ResumeDesiredRequestObject) (oapi.ResumeDesiredResponseObject, error) {
	ctx, r := request.Of(ctx)
	shown, err := s.ShowChanged(s.Changes.Resume(ctx, s.Idempotent(r, http.StatusOK), named(req.Kind, req.Params.Scope, req.Name)))
	if err != nil {
		return nil, err
	}
	return oapi.ResumeDesired200JSONResponse{Body: shown}, nil
}

// ReconcileDesired handles POST /api/v1/admin/desired/{kind}/{name}/reconcile.
func (s *Handlers) ReconcileDesired(ctx context.Context, req oapi.ReconcileDesiredRequestObject) (oapi.ReconcileDesiredResponseObject, error) {
	ctx, r := request.Of(ctx)
	of := named(req.Kind, req.Params.Scope, req.Name)
	shown, err := s.ShowChanged(s.Changes.Reconcile(ctx, s.Idempotent(r, http.StatusAccepted), of, req.Body.Reason))
	if err != nil {
		return nil, err
	}
	return oapi.ReconcileDesired202JSONResponse{Body: shown}, nil
}

// TraceDesired handles GET /api/v1/admin/desired/{kind}/{name}/trace.
func (s *Handlers) TraceDesired(ctx context.Context, req oapi.TraceDesiredRequestObject) (oapi.TraceDesiredResponseObject, error) {
	ctx, _ = request.Of(ctx)
	o, steps, err := s.Timeline.Trace(ctx, desired.Kind(req.Kind), request.Or(req.Params.Scope, ""), req.Name)
	if err != nil {
		return nil, err
	}
	shown, err := s.ShowWithState(ctx, o)
	if err != nil {
		return nil, err
	}
	told := make([]oapi.TraceStep, len(steps))
	for i, t := range steps {
		told[i] = oapi.TraceStep{
			Stage: oapi.TraceStepStage(t.Stage), OccurredAt: t.At.UTC(), State: t.State, Message: t.Text, Reference: response.OrNil(t.Reference),
		}
	}
	return oapi.TraceDesired200JSONResponse{Object: shown[0], Steps: told}, nil
}

func named(kind oapi.KindName, scope *string, name string) desired.Name {
	return desired.Name{Kind: desired.Kind(kind), Scope: request.Or(scope, ""), Name: name}
}

// suspension contains the reason and the end of a suspension.
type suspension struct {
	Reason string
	Until  *time.Time
}

// ReadHold rejects an end in the past, because the suspension would have no effect.
func (s *Handlers) ReadHold(reason string, until *time.Time) (suspension, error) {
	if until != nil && !until.After(s.Clock.Now()) {
		return suspension{}, errs.Invalid("until", "is in the past")
	}
	return suspension{reason, response.UTC(until)}, nil
}

// Idempotent returns a change of an object, whose response is stored under its idempotency key. The
// response contains no state.
func (s *Handlers) Idempotent(r *request.Call, status int) identity.Change[desired.Object] {
	return response.Change(r, func(o desired.Object) identity.Reply {
		shown, err := s.Show(o)
		if err != nil { // the service has just read this spec
			panic(err)
		}
		at := ""
		if status == http.StatusCreated {
			at = Location(o)
		}
		return response.Reply(status, shown, at, request.ETag(o.ResourceVersion))
	})
}

// ShowChanged encodes an object that a change returned, or passes on the error of the change.
func (s *Handlers) ShowChanged(o desired.Object, err error) (oapi.DesiredObject, error) {
	if err != nil {
		return oapi.DesiredObject{}, err
	}
	return s.Show(o)
}

// Location returns the path of an object in this API.
func Location(o desired.Object) string {
	return fmt.Sprintf("/api/v1/admin/desired/%s/%s", o.Kind, o.Name)
}
