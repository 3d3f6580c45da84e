package terminal

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/product/terminal/recording"
)

// ListTerminalRecordings handles GET /api/v1/terminal-recordings.
func (s *Handlers) ListTerminalRecordings(ctx context.Context, req oapi.ListTerminalRecordingsRequestObject) (oapi.ListTerminalRecordingsResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	f := recording.Filter{Project: r.Caller.Project, Allocation: request.Or(p.AllocationId, uuid.Nil), Principal: request.Or(p.PrincipalId, uuid.Nil)}
	l, err := response.List(s.Cursors, r, p.Cursor, p.Limit, func(after uuid.UUID, n int) ([]recording.Recording, error) {
		f.After, f.Limit = after, n
		return s.Recordings.List(ctx, f)
	}, func(v recording.Recording) uuid.UUID { return v.ID }, s.toRecording)
	if err != nil {
		return nil, err
	}
	return oapi.ListTerminalRecordings200JSONResponse{
		Body: oapi.TerminalRecordingList{Items: l.Items, NextCursor: l.Next}, Headers: oapi.ListTerminalRecordings200ResponseHeaders{Link: l.Link},
	}, nil
}

// GetTerminalRecording handles GET /api/v1/terminal-recordings/{id}.
func (s *Handlers) GetTerminalRecording(ctx context.Context, req oapi.GetTerminalRecordingRequestObject) (oapi.GetTerminalRecordingResponseObject, error) {
	ctx, r := request.Of(ctx)
	write, err := s.Recordings.Open(ctx, r.Caller.Cause(), req.Id, r.Caller.Project)
	if err != nil {
		return nil, err
	}
	return cast(func(w http.ResponseWriter) error {
		w.Header().Set("Content-Type", "application/x-asciicast")
		w.Header().Set("Content-Disposition", `attachment; filename="`+req.Id.String()+`.cast"`)
		if err := write(ctx, patient{w, s}); err != nil {
			s.Exports.Log.WarnContext(ctx, "a recording broke off", slog.String("session_id", req.Id.String()), slog.Any("err", err))
			panic(http.ErrAbortHandler) // the only sign for a client that has received status 200
		}
		return nil
	}), nil
}

// cast replaces the generated response, which would need memory for the whole recording.
type cast func(http.ResponseWriter) error

// VisitGetTerminalRecordingResponse writes the chunks as they are read.
func (write cast) VisitGetTerminalRecordingResponse(w http.ResponseWriter) error { return write(w) }

// patient extends the deadline of the response with each chunk.
type patient struct {
	http.ResponseWriter

	s *Handlers
}

func (p patient) Write(text []byte) (int, error) {
	if err := p.s.Exports.Extend(p.ResponseWriter); err != nil {
		return 0, err
	}
	return p.ResponseWriter.Write(text)
}

func (s *Handlers) toRecording(v recording.Recording) oapi.TerminalRecording {
	shown := oapi.TerminalRecording{
		Id: v.ID, Urn: v.URN(s.Naming), TenantId: v.Tenant.UUID, ProjectId: v.Project.UUID, AllocationId: v.Allocation.UUID, PrincipalId: v.Principal,
		Status: oapi.TerminalRecordingStatus(v.Status), Required: v.Required, Columns: v.Columns, Rows: v.Rows, OutputBytes: v.Bytes,
		DurationSeconds: int64(v.Duration / time.Second), CorrelationId: v.CorrelationID, CreatedAt: v.CreatedAt.UTC(), UpdatedAt: v.UpdatedAt.UTC(), EndedAt: response.UTC(v.EndedAt),
	}
	if v.Status == "incomplete" {
		why := oapi.TerminalRecordingIncompleteReason(v.Incomplete)
		if why == "" {
			why = "lost"
		}
		shown.IncompleteReason = &why
	}
	return shown
}
