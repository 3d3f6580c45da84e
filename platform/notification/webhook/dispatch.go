package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/event/consume"
	"github.com/gpuaas/gpuaas/platform/notification"
	"github.com/gpuaas/gpuaas/platform/notification/mail"
)

// consumerPrefix begins the names of the consumers: a durable consumer has one stream, so there is one for each.
const consumerPrefix = "webhook_dispatch_"

// ConsumerNames lists the names of the consumers.
func ConsumerNames() (names []string) {
	for stream := range subjects {
		names = append(names, consumerPrefix+strings.ToLower(stream))
	}
	return names
}

// Consumers returns a consumer for each stream but that of dead letters. They are unordered: an event that is older than
// the last one of its aggregate was not sent yet, and a receiver wants each.
func (s *Service) Consumers() (all []consume.Consumer) {
	for _, stream := range slices.Sorted(maps.Keys(subjects)) {
		all = append(all, consume.Consumer{
			Name: consumerPrefix + strings.ToLower(stream), Stream: stream, Subjects: subjects[stream], Effect: s.dispatch, Unordered: true,
		})
	}
	return all
}

// target is an endpoint whose patterns match an event.
type target struct {
	ID       uuid.UUID
	Format   Format
	Disabled bool
}

// dispatch stores a delivery for each endpoint of the tenant that matches the event, and queues its job. The endpoints are
// locked until the commit: one that is disabled meanwhile leaves no pending delivery, and a job that ends meanwhile
// finds the row.
func (s *Service) dispatch(ctx context.Context, tx pgx.Tx, e event.Event) (topics []string, err error) {
	if e.Tenant == (ids.Tenant{}) {
		return nil, nil
	}
	targets, err := pg.List(ctx, tx, "webhook endpoints", lockTargets, pgx.RowToStructByPos[target], e.Tenant.UUID, e.Project.UUID, patternsOf(e.Type))
	if err != nil || len(targets) == 0 {
		return nil, err
	}
	b := &pgx.Batch{}
	var due []river.InsertManyParams
	for _, t := range targets {
		body, err := bodyOf(e, t.Format)
		if err != nil {
			return nil, err
		}
		b.Queue(insertDelivery, deliveryID(t.ID, e.ID), t.ID, e.Tenant.UUID, e.Project.UUID, e.ID.UUID, e.Type, string(body), t.Disabled)
		if !t.Disabled {
			due = append(due, river.InsertManyParams{Args: DeliverWebhook{Endpoint: t.ID}})
		}
	}
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("storing the deliveries of event %s: %w", e.ID, err)
	}
	return nil, s.queue(ctx, tx, due)
}

func (s *Service) queue(ctx context.Context, tx pgx.Tx, due []river.InsertManyParams) error {
	if len(due) == 0 {
		return nil
	}
	if _, err := s.Jobs.InsertManyTx(ctx, tx, due); err != nil {
		return fmt.Errorf("queueing webhooks: %w", err)
	}
	return nil
}

// deliveryID returns the id of a delivery. It has the time of the event, and is the same for each dispatch of the event
// to the endpoint.
func deliveryID(endpoint uuid.UUID, e ids.Event) uuid.UUID {
	sum := sha256.Sum256(append(endpoint[:], e.UUID[:]...))
	id := uuid.UUID(sum[:16])
	copy(id[:6], e.UUID[:6])
	id[6] = 0x70 | id[6]&0x0f
	id[8] = 0x80 | id[8]&0x3f
	return id
}

// bodyOf returns the body of a request.
func bodyOf(e event.Event, as Format) ([]byte, error) {
	var content any = e
	if as == Slack {
		content = map[string]string{"text": slackText(e)}
	}
	body, err := json.Marshal(content)
	if err != nil {
		return nil, fmt.Errorf("encoding event %s: %w", e.ID, err)
	}
	return body, nil
}

// escapeSlack escapes the characters that begin a link, a mention or an entity.
var escapeSlack = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slackText returns the notification of an event, or its type and resource.
func slackText(e event.Event) string {
	title, message := notification.Describe(e)
	if title == "" {
		var of struct {
			URN string `json:"urn"`
		}
		_ = json.Unmarshal(e.Payload, &of) // a payload without a resource has none to show
		return escapeSlack.Replace(strings.TrimSpace(e.Type + " " + of.URN))
	}
	return "*" + escapeSlack.Replace(mail.Clean(title)) + "*\n" + escapeSlack.Replace(mail.Clean(message))
}
