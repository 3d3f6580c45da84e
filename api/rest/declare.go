package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/gitops/change"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// PutDesired handles PUT /api/v1/admin/desired/{kind}/{name}.
func (s *Server) PutDesired(ctx context.Context, req oapi.PutDesiredRequestObject) (oapi.PutDesiredResponseObject, error) {
	ctx, r := of(ctx)
	version, err := ifMatch(req.Params.IfMatch, false)
	if err != nil {
		return nil, err
	}
	// Not from the decoded body: its numbers would have been rounded.
	var sent struct {
		Spec json.RawMessage `json:"spec"`
	}
	if err := json.Unmarshal(r.body, &sent); err != nil {
		return nil, errs.Invalid("spec", "is not well-formed").Because(err)
	}
	if version == 0 && or(req.Params.IfMatch, "") != "" {
		// Any version, but one that is there.
		have, err := s.Desired.Get(ctx, desired.Kind(req.Kind), "", req.Name)
		if err != nil {
			return nil, err
		}
		version = have.ResourceVersion
	}
	status := http.StatusOK
	if version == 0 {
		status = http.StatusCreated // or refused: only a name that is free
	}
	o, err := s.Changes.Put(ctx, s.keepObject(r, status), change.Write{
		Object: desired.Object{
			Kind: desired.Kind(req.Kind), Name: req.Name, Labels: or(req.Body.Labels, nil), Annotations: or(req.Body.Annotations, nil), Spec: sent.Spec,
		},
		Version: version, DryRun: or(req.Params.DryRun, false),
	})
	if err != nil {
		return nil, err
	}
	shown, err := s.toDesired(o)
	if err != nil {
		return nil, err
	}
	if status == http.StatusOK {
		return oapi.PutDesired200JSONResponse{Body: shown, Headers: oapi.PutDesired200ResponseHeaders{ETag: tagOf(o.ResourceVersion)}}, nil
	}
	return oapi.PutDesired201JSONResponse{
		Body: shown, Headers: oapi.PutDesired201ResponseHeaders{ETag: tagOf(o.ResourceVersion), Location: objectAt(o)},
	}, nil
}

// DeleteDesired handles DELETE /api/v1/admin/desired/{kind}/{name}.
func (s *Server) DeleteDesired(ctx context.Context, req oapi.DeleteDesiredRequestObject) (oapi.DeleteDesiredResponseObject, error) {
	ctx, r := of(ctx)
	version, err := ifMatch(req.Params.IfMatch, true)
	if err != nil {
		return nil, err
	}
	shown, err := s.shownObject(s.Changes.Delete(ctx, s.keepObject(r, http.StatusAccepted), named(req.Kind, nil, req.Name), version))
	if err != nil {
		return nil, err
	}
	return oapi.DeleteDesired202JSONResponse{Body: shown}, nil
}

// AdoptDesired handles POST /api/v1/admin/desired/{kind}/{name}/adopt.
func (s *Server) AdoptDesired(ctx context.Context, req oapi.AdoptDesiredRequestObject) (oapi.AdoptDesiredResponseObject, error) {
	ctx, r := of(ctx)
	version, err := ifMatch(req.Params.IfMatch, false)
	if err != nil {
		return nil, err
	}
	to, source := desired.Owner(req.Body.Owner), or(req.Body.Source, "")
	switch {
	case to == desired.OwnerGit && source == "":
		return nil, errs.Invalid("source", "is missing").Try("name the source that adopts the object")
	case to == desired.OwnerAPI && source != "":
		return nil, errs.Invalid("source", "is valid only with owner git")
	}
	o, err := s.Changes.Adopt(ctx, s.keepObject(r, http.StatusOK), named(req.Kind, nil, req.Name), to, source, version)
	if err != nil {
		return nil, err
	}
	shown, err := s.toDesired(o)
	return oapi.AdoptDesired200JSONResponse{Body: shown, Headers: oapi.AdoptDesired200ResponseHeaders{ETag: tagOf(o.ResourceVersion)}}, err
}

// SuspendDesired handles POST /api/v1/admin/desired/{kind}/{name}/suspend.
func (s *Server) SuspendDesired(ctx context.Context, req oapi.SuspendDesiredRequestObject) (oapi.SuspendDesiredResponseObject, error) {
	ctx, r := of(ctx)
	h, err := s.holdOf(req.Body.Reason, req.Body.Until)
	if err != nil {
		return nil, err
	}
	shown, err := s.shownObject(s.Changes.Suspend(ctx, s.keepObject(r, http.StatusOK), named(req.Kind, req.Params.Scope, req.Name), h.reason, h.until))
	if err != nil {
		return nil, err
	}
	return oapi.SuspendDesired200JSONResponse{Body: shown}, nil
}

// ResumeDesired handles POST /api/v1/admin/desired/{kind}/{name}/resume.
func (s *Server) ResumeDesired(ctx context.Context, req oapi.ResumeDesiredRequestObject) (oapi.ResumeDesiredResponseObject, error) {
	ctx, r := of(ctx)
	shown, err := s.shownObject(s.Changes.Resume(ctx, s.keepObject(r, http.StatusOK), named(req.Kind, req.Params.Scope, req.Name)))
	if err != nil {
		return nil, err
	}
	return oapi.ResumeDesired200JSONResponse{Body: shown}, nil
}

// ReconcileDesired handles POST /api/v1/admin/desired/{kind}/{name}/reconcile.
func (s *Server) ReconcileDesired(ctx context.Context, req oapi.ReconcileDesiredRequestObject) (oapi.ReconcileDesiredResponseObject, error) {
	ctx, r := of(ctx)
	of := named(req.Kind, req.Params.Scope, req.Name)
	shown, err := s.shownObject(s.Changes.Reconcile(ctx, s.keepObject(r, http.StatusAccepted), of, req.Body.Reason))
	if err != nil {
		return nil, err
	}
	return oapi.ReconcileDesired202JSONResponse{Body: shown}, nil
}

// TraceDesired handles GET /api/v1/admin/desired/{kind}/{name}/trace.
func (s *Server) TraceDesired(ctx context.Context, req oapi.TraceDesiredRequestObject) (oapi.TraceDesiredResponseObject, error) {
	ctx, _ = of(ctx)
	o, steps, err := s.Trace(ctx, desired.Kind(req.Kind), or(req.Params.Scope, ""), req.Name)
	if err != nil {
		return nil, err
	}
	shown, err := s.withState(ctx, o)
	if err != nil {
		return nil, err
	}
	told := make([]oapi.TraceStep, len(steps))
	for i, t := range steps {
		told[i] = oapi.TraceStep{
			Stage: oapi.TraceStepStage(t.Stage), OccurredAt: t.At.UTC(), State: t.State, Message: t.Text, Reference: filled(t.Reference),
		}
	}
	return oapi.TraceDesired200JSONResponse{Object: shown[0], Steps: told}, nil
}

func named(kind oapi.KindName, scope *string, name string) desired.Name {
	return desired.Name{Kind: desired.Kind(kind), Scope: or(scope, ""), Name: name}
}

// hold is why and until when something is left alone.
type hold struct {
	reason string
	until  *time.Time
}

// holdOf refuses an end that has gone by: nothing would be held.
func (s *Server) holdOf(reason string, until *time.Time) (hold, error) {
	if until != nil && !until.After(s.Clock.Now()) {
		return hold{}, errs.Invalid("until", "is in the past")
	}
	return hold{reason, utc(until)}, nil
}

// keepObject keeps an object with the key. It has no status: that is for those who
// ask.
func (s *Server) keepObject(r *call, status int) identity.Change[desired.Object] {
	return keep(r, func(o desired.Object) identity.Reply {
		shown, err := s.toDesired(o)
		if err != nil { // the room has just read this spec
			panic(err)
		}
		at := ""
		if status == http.StatusCreated {
			at = objectAt(o)
		}
		return reply(status, shown, at, tagOf(o.ResourceVersion))
	})
}

func (s *Server) shownObject(o desired.Object, err error) (oapi.DesiredObject, error) {
	if err != nil {
		return oapi.DesiredObject{}, err
	}
	return s.toDesired(o)
}

func objectAt(o desired.Object) string {
	return fmt.Sprintf("/api/v1/admin/desired/%s/%s", o.Kind, o.Name)
}
