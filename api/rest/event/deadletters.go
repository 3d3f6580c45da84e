package event

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/api/rest/response"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/event/consume"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// ListDeadLetters handles GET /api/v1/admin/events/dead-letters.
func (s *Handlers) ListDeadLetters(ctx context.Context, req oapi.ListDeadLettersRequestObject) (oapi.ListDeadLettersResponseObject, error) {
	ctx, r := request.Of(ctx)
	p := req.Params
	f := consume.Filter{Consumer: request.Or(p.Consumer, ""), Stream: string(request.Or(p.Stream, "")), Subject: request.Or(p.Subject, "")}
	l, err := response.List(s.Cursors, r, p.Cursor, p.Limit, func(after uuid.UUID, n int) ([]consume.DeadLetter, error) {
		return s.Consumers.DeadLetters(ctx, f, request.Or(p.Resolved, false), after, n)
	}, func(d consume.DeadLetter) uuid.UUID { return d.ID }, s.toDeadLetter)
	if err != nil {
		return nil, err
	}
	return oapi.ListDeadLetters200JSONResponse{
		Body:    oapi.DeadLetterList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListDeadLetters200ResponseHeaders{Link: l.Link},
	}, nil
}

// GetDeadLetter handles GET /api/v1/admin/events/dead-letters/{id}.
func (s *Handlers) GetDeadLetter(ctx context.Context, req oapi.GetDeadLetterRequestObject) (oapi.GetDeadLetterResponseObject, error) {
	ctx, _ = request.Of(ctx)
	d, e, err := s.Consumers.DeadLetter(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	shown := s.toDeadLetter(d)
	if e.ID != (ids.Event{}) {
		if shown.Event, err = toEnvelope(e); err != nil {
			return nil, err
		}
	}
	return oapi.GetDeadLetter200JSONResponse(shown), nil
}

// RetryDeadLetters handles POST /api/v1/admin/events/dead-letters/retry.
func (s *Handlers) RetryDeadLetters(ctx context.Context, req oapi.RetryDeadLettersRequestObject) (oapi.RetryDeadLettersResponseObject, error) {
	n, err := s.decide(ctx, *req.Body, s.Consumers.Retry)
	if err != nil {
		return nil, err
	}
	return oapi.RetryDeadLetters202JSONResponse{Body: n}, nil
}

// DiscardDeadLetters handles POST /api/v1/admin/events/dead-letters/discard.
func (s *Handlers) DiscardDeadLetters(ctx context.Context, req oapi.DiscardDeadLettersRequestObject) (oapi.DiscardDeadLettersResponseObject, error) {
	n, err := s.decide(ctx, *req.Body, s.Consumers.Discard)
	if err != nil {
		return nil, err
	}
	return oapi.DiscardDeadLetters202JSONResponse{Body: n}, nil
}

type decision func(context.Context, consume.Filter, audit.By, string) ([]uuid.UUID, func(*pgx.Batch), error)

func (s *Handlers) decide(ctx context.Context, d oapi.DeadLetterDecision, of decision) (oapi.DeadLetterCount, error) {
	ctx, r := request.Of(ctx)
	f := consume.Filter{Consumer: request.Or(d.Consumer, ""), Stream: string(request.Or(d.Stream, "")), Subject: request.Or(d.Subject, ""), IDs: request.Or(d.DeadLetterIds, nil)}
	count := func(chosen []uuid.UUID) oapi.DeadLetterCount { return oapi.DeadLetterCount{DeadLetters: len(chosen)} }
	ch := response.Change(r, func(chosen []uuid.UUID) identity.Reply {
		return response.Reply(http.StatusAccepted, count(chosen), "", "")
	})
	chosen, err := ch.Apply(ctx, s.Identity, func() ([]uuid.UUID, func(*pgx.Batch), error) { return of(ctx, f, r.Caller.Cause(), d.Reason) })
	if err == nil {
		s.Hints.Send(consume.Topic)
	}
	return count(chosen), err
}

// ListConsumers handles GET /api/v1/admin/events/consumers.
func (s *Handlers) ListConsumers(ctx context.Context, req oapi.ListConsumersRequestObject) (oapi.ListConsumersResponseObject, error) {
	ctx, r := request.Of(ctx)
	l, err := response.List(s.Cursors, r, req.Params.Cursor, req.Params.Limit, func(after string, n int) ([]consume.State, error) {
		return consume.States(ctx, s.DB, after, n)
	}, func(c consume.State) string { return c.Name }, func(c consume.State) oapi.Consumer {
		return oapi.Consumer{
			Name: c.Name, Stream: c.Stream, Epoch: c.Epoch, Pending: c.Pending, Redelivered: c.Redelivered, OldestAt: response.UTC(c.OldestAt),
			LagSeconds: int64(c.Lag.Seconds()), CheckedAt: c.CheckedAt.UTC(),
		}
	})
	if err != nil {
		return nil, err
	}
	return oapi.ListConsumers200JSONResponse{
		Body:    oapi.ConsumerList{Items: l.Items, NextCursor: l.Next},
		Headers: oapi.ListConsumers200ResponseHeaders{Link: l.Link},
	}, nil
}

// ReplayConsumer handles POST /api/v1/admin/events/consumers/{name}/replay.
func (s *Handlers) ReplayConsumer(ctx context.Context, req oapi.ReplayConsumerRequestObject) (oapi.ReplayConsumerResponseObject, error) {
	ctx, r := request.Of(ctx)
	b := req.Body
	if b.FromAt != nil && b.ToAt != nil && !b.FromAt.Before(*b.ToAt) {
		return nil, errs.Invalid("from_at", "is not before to_at")
	}
	asked := consume.Replay{
		Consumer: req.Name, Events: request.Or(b.EventIds, nil), From: b.FromAt, To: b.ToAt, After: ids.From[ids.Event](request.Or(b.AfterEventId, uuid.Nil)),
		Repeat: request.Or(b.Repeat, false), Reason: b.Reason,
	}
	show := func(made consume.Replay) oapi.ReplayAccepted {
		return oapi.ReplayAccepted{ReplayId: made.ID, Consumer: made.Consumer}
	}
	ch := response.Change(r, func(made consume.Replay) identity.Reply {
		return response.Reply(http.StatusAccepted, show(made), "", "")
	})
	made, err := ch.Apply(ctx, s.Identity, func() (consume.Replay, func(*pgx.Batch), error) {
		return s.Consumers.RequestReplay(ctx, asked, r.Caller.Cause())
	})
	if err != nil {
		return nil, err
	}
	s.Hints.Send(consume.Topic)
	return oapi.ReplayConsumer202JSONResponse{Body: show(made)}, nil
}

func (s *Handlers) toDeadLetter(d consume.DeadLetter) oapi.DeadLetter {
	shown := oapi.DeadLetter{
		Id: d.ID, Urn: s.Naming.Name("", "", "dead-letter", d.ID.String()).String(), Consumer: d.Consumer, EventId: d.Event, Stream: d.Stream, Subject: d.Subject,
		Error: d.Error, Attempts: d.Attempts, Status: oapi.Dead, Reason: response.OrNil(d.Reason),
		ResolvedAt: response.UTC(d.ResolvedAt), ResolvedBy: response.OrNil(d.ResolvedBy), CreatedAt: d.CreatedAt.UTC(), UpdatedAt: response.Later(d.FailedAt, d.RetryAt, d.ResolvedAt),
	}
	switch {
	case d.Resolution != "":
		shown.Status = oapi.DeadLetterStatus(d.Resolution)
	case d.RetryAt != nil:
		shown.Status = oapi.Retrying
	}
	return shown
}

func toEnvelope(e event.Event) (*oapi.EventEnvelope, error) {
	shown := oapi.EventEnvelope{EventId: e.ID.UUID, EventType: e.Type, OccurredAt: e.OccurredAt.UTC(), Version: e.Version, CorrelationId: e.CorrelationID}
	if err := json.Unmarshal(e.Payload, &shown.Payload); err != nil {
		return nil, fmt.Errorf("reading the payload of event %s: %w", e.ID, err)
	}
	return &shown, nil
}
