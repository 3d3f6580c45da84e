package view_test

import (
	"log/slog"
	"testing"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/view"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// A section that cannot be read states why, and a panic of any of its parts ends no server.
func TestASectionStatesWhyItHasNoData(t *testing.T) {
	t.Parallel()
	enters := func(r *request.Call, _ string) (*request.Call, error) { in := *r; return &in, nil }
	for name, c := range map[string]struct {
		enter  func(*request.Call, string) (*request.Call, error)
		of     any
		err    error
		status oapi.SectionStatus
		reason oapi.SectionReason
	}{
		"the check of the right panics": {enter: func(*request.Call, string) (*request.Call, error) { panic("no operation") }, status: oapi.SectionStatusDegraded, reason: oapi.SectionReasonFailed},
		"the document is another":       {enter: enters, of: "text", status: oapi.SectionStatusDegraded, reason: oapi.SectionReasonFailed},
		"the caller has no right":       {enter: enters, err: errs.New(errs.Forbidden, "no"), status: oapi.SectionStatusRestricted, reason: oapi.SectionReasonForbidden},
		"the object is unknown":         {enter: enters, err: errs.New(errs.NotFound, "no"), status: oapi.SectionStatusOk, reason: oapi.SectionReasonNotFound},
		"its parameters are wrong":      {enter: enters, err: errs.New(errs.ValidationError, "no"), status: oapi.SectionStatusDegraded, reason: oapi.SectionReasonFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &view.Handlers{Enter: c.enter, Log: slog.New(slog.DiscardHandler)}
			s, err := view.Fill(h, &request.Call{Context: t.Context()}, c.of, c.err)
			if s.Status != c.status || s.Reason == nil || *s.Reason != c.reason || s.Data != nil {
				t.Errorf("%s: %+v", s.Status, s)
			}
			if errs.CodeOf(err) != errs.CodeOf(c.err) {
				t.Errorf("the caller's error is %v", err)
			}
		})
	}
}
