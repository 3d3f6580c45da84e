package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Deliveries lists the deliveries of an endpoint, the newest first, after an id. An empty status matches all.
func (s *Service) Deliveries(ctx context.Context, in Scope, id ids.Webhook, status string, after uuid.UUID, limit int) ([]Delivery, error) {
	if _, err := s.Get(ctx, in, id); err != nil {
		return nil, err
	}
	if after == uuid.Nil {
		after = uuid.Max
	}
	return pg.List(ctx, s.DB, "deliveries", selectDeliveries, scanDelivery, id, status, after, limit)
}

// enabled reads an endpoint that is not disabled.
func (s *Service) enabled(ctx context.Context, in Scope, id ids.Webhook) (Endpoint, error) {
	e, err := s.Get(ctx, in, id)
	if err == nil && e.DisabledAt != nil {
		err = errs.New(errs.Conflict, "the webhook is disabled").Try("enable it first: gpuaas webhook update %s --enable", e.Name)
	}
	return e, err
}

// Resend sends a delivery again, with a new schedule.
func (s *Service) Resend(ctx context.Context, ch identity.Change[Delivery], in Scope, id ids.Webhook, delivery uuid.UUID) (Delivery, error) {
	return ch.ApplyWith(ctx, s.Identity, func() (Delivery, func(*pgx.Batch), error) {
		e, err := s.enabled(ctx, in, id)
		if err != nil {
			return Delivery{}, nil, err
		}
		d, err := pg.One(ctx, s.DB, "delivery", selectDelivery, scanDelivery, id, delivery)
		if err != nil {
			return d, nil, err
		}
		was, now := d.Status, s.Clock.Now()
		d.Status, d.NextAt, d.UpdatedAt = "pending", &now, now
		return d, func(b *pgx.Batch) {
			b.Queue(shareEndpoint, id).Exec(pg.OrElse(identity.ErrRaced))
			b.Queue(resendDelivery, delivery, now)
			s.note(b, ch.Caller, "webhook_delivery.resend", d.ref(), audit.Fields{"status": was}, audit.Fields{"status": d.Status, "webhook": e.Name})
		}, nil
	}, func(tx pgx.Tx) error { return s.queue(ctx, tx, jobsOf(id)) })
}

func (d Delivery) ref() identity.Resource {
	return identity.Resource{Tenant: d.Tenant, Project: d.Project, Kind: "webhook-delivery", ID: d.ID.String()}
}

// maxReplayed limits the deliveries of one request.
const maxReplayed = 100_000

// Replay selects stored deliveries.
type Replay struct {
	All  bool // also those that were delivered
	From *time.Time
}

// Replay sends stored deliveries again, and returns their number. Each has the id that it had before.
func (s *Service) Replay(ctx context.Context, ch identity.Change[int64], in Scope, id ids.Webhook, r Replay) (int64, error) {
	if r.All && r.From == nil {
		return 0, errs.Invalid("from_at", "is required for all deliveries").Try("set the time of the first event")
	}
	return ch.ApplyWith(ctx, s.Identity, func() (n int64, _ func(*pgx.Batch), _ error) {
		e, err := s.enabled(ctx, in, id)
		if err != nil {
			return 0, nil, err
		}
		if err := s.DB.QueryRow(ctx, countReplayed, id, r.All, r.From, maxReplayed).Scan(&n); err != nil {
			return 0, nil, fmt.Errorf("counting the deliveries to replay: %w", err)
		}
		if n > maxReplayed {
			return 0, nil, errs.New(errs.Conflict, "more than %d deliveries match", maxReplayed).Try("replay the later ones first: set a later from_at")
		}
		return n, func(b *pgx.Batch) {
			b.Queue(shareEndpoint, id).Exec(pg.OrElse(identity.ErrRaced))
			b.Queue(replayDeliveries, id, r.All, r.From)
			s.note(b, ch.Caller, "webhook.replay", e.ref(), nil, audit.Fields{"all": r.All, "from": r.From, "deliveries": n})
		}, nil
	}, func(tx pgx.Tx) error { return s.queue(ctx, tx, jobsOf(id)) })
}

// TestType is the type of the message of a test. No event has it.
const TestType = "webhook.test"

// TestResult is the result of a test.
type TestResult struct {
	Attempt

	MessageID string
	Response  string
}

// Test sends a signed message now. It is no event, has no delivery and is not repeated.
func (s *Service) Test(ctx context.Context, ch identity.Change[TestResult], in Scope, id ids.Webhook) (TestResult, error) {
	return ch.Apply(ctx, s.Identity, func() (TestResult, func(*pgx.Batch), error) {
		e, err := s.Get(ctx, in, id)
		if err != nil {
			return TestResult{}, nil, err
		}
		keys, err := s.keysOf(ctx, e)
		if err != nil {
			return TestResult{}, nil, err
		}
		m, err := s.testMessage(e, ch.Caller.CorrelationID)
		if err != nil {
			return TestResult{}, nil, err
		}
		r := s.Sender.send(ctx, e, keys, m, s.Clock.Now)
		return TestResult{Attempt: r.Attempt, MessageID: m.id, Response: r.response}, func(b *pgx.Batch) {
			s.note(b, ch.Caller, "webhook.test", e.ref(), nil, audit.Fields{"delivered": r.Delivered, "status": r.Status})
		}, nil
	})
}

func (s *Service) testMessage(e Endpoint, correlation string) (message, error) {
	payload, err := json.Marshal(map[string]string{"urn": s.urn(e), "tenant_id": e.Tenant.String(), "project_id": projectText(e.Project)})
	if err != nil {
		return message{}, fmt.Errorf("encoding a test: %w", err)
	}
	test := event.Event{ID: ids.New[ids.Event](), Type: TestType, OccurredAt: s.Clock.Now(), Version: event.Version, CorrelationID: correlation, Payload: payload}
	body, err := bodyOf(test, e.Format)
	return message{id: test.ID.String(), body: body}, err
}

// TestOnce sends a test to a URL that no endpoint has, and returns the secret that signs it. The caller of the command names
// an address of its own network, so each address is allowed.
func TestOnce(ctx context.Context, url string, c clock.Clock) (secret string, _ TestResult, err error) {
	k, err := newKey(Symmetric, "")
	if err != nil {
		return "", TestResult{}, err
	}
	secret, _ = k.texts(Symmetric)
	e := Endpoint{URL: url, Format: Standard, Signature: Symmetric}
	m, err := (&Service{Identity: &identity.Service{Naming: ids.DefaultNaming}, Clock: c}).testMessage(e, "")
	if err != nil {
		return "", TestResult{}, err
	}
	r := newOpenSender().send(ctx, e, []key{k}, m, c.Now)
	return secret, TestResult{Attempt: r.Attempt, MessageID: m.id, Response: r.response}, nil
}
