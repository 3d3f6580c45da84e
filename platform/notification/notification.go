// Package notification notifies users about events. Each kind of notification is a consumer of one subject,
// and a row of the table of kinds. The package changes nothing that an event is about.
package notification

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/event/consume"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/policies"
)

// Service creates notifications, and lists them to their users.
type Service struct {
	DB     pg.Pool
	Naming ids.Naming
	// Policy reads the policies of a user about the resources of a tenant or project.
	Policy func(ids.Tenant, ids.Project, ids.User) policies.View
}

// PolicyFrom returns the function for Service.Policy.
func PolicyFrom(c *policies.Client) func(ids.Tenant, ids.Project, ids.User) policies.View {
	return func(tenant ids.Tenant, project ids.Project, user ids.User) policies.View {
		return c.Latest().For(append(identity.TenantScopes(tenant, project), policies.In(policies.LevelUser, user.String()))...)
	}
}

// Notification is a message to a user.
type Notification struct {
	ID        uuid.UUID
	Tenant    *uuid.UUID // nil: about the platform
	Kind      string
	Severity  Severity
	URN       string // of the resource; empty for dead letters
	Title     string
	Message   string
	Count     int // events of this kind about the resource within a day, until it is read
	CreatedAt time.Time
	UpdatedAt time.Time
	ReadAt    *time.Time
}

// Consumers returns a consumer for each kind.
func (s *Service) Consumers() (all []consume.Consumer) {
	for _, k := range kinds() {
		c := consume.Consumer{Name: "notification_relay_" + k.name, Stream: k.stream, Subjects: []string{k.subject}, Effect: s.effect(k)}
		if k.stream == event.StreamDLQ {
			c.Name, c.Unordered = "ops_dlq", true
		}
		all = append(all, c)
	}
	return all
}

// effect notifies the users of the audience whose policies allow the kind.
func (s *Service) effect(k kind) func(context.Context, pgx.Tx, event.Event) ([]string, error) {
	return func(ctx context.Context, tx pgx.Tx, e event.Event) (topics []string, err error) {
		about, err := k.render(e)
		if err != nil {
			return nil, err
		}
		users, err := identity.UsersWithRoles(ctx, tx, e.Tenant, e.Project, k.audience(e))
		if err != nil {
			return nil, err
		}
		var to, made []uuid.UUID
		for _, u := range users {
			if k.enabled == "" || s.Policy(e.Tenant, e.Project, ids.From[ids.User](u)).Bool(k.enabled) {
				to, made, topics = append(to, u), append(made, uuid.Must(uuid.NewV7())), append(topics, Topic(ids.From[ids.User](u)))
			}
		}
		if _, err := tx.Exec(ctx, notify, to, made, e.Tenant.UUID, k.name, k.severity, about.urn, about.title, about.message); err != nil {
			return nil, fmt.Errorf("notifying about event %s: %w", e.ID, err)
		}
		return topics, nil
	}
}

// Topic is the hint after a notification of a user has changed.
func Topic(user ids.User) string { return "notify." + user.String() }

// List returns the notifications of the caller, the newest first, after an id.
func (s *Service) List(ctx context.Context, c identity.Caller, unread bool, after uuid.UUID, limit int) ([]Notification, error) {
	if after == uuid.Nil {
		after = uuid.Max
	}
	return pg.List(ctx, s.DB, "notifications", selectNotifications, pgx.RowToStructByPos[Notification], c.User.UUID, unread, after, limit)
}

// MarkRead returns the statements that mark notifications of the caller as read: those with these ids, or all.
func (s *Service) MarkRead(ctx context.Context, c identity.Caller, these []uuid.UUID) (func(*pgx.Batch), error) {
	own, err := pg.List(ctx, s.DB, "notifications", selectOwn, pgx.RowTo[uuid.UUID], c.User.UUID, these)
	if err != nil {
		return nil, err
	}
	for _, id := range these {
		if !slices.Contains(own, id) {
			return nil, errs.New(errs.NotFound, "no such notification")
		}
	}
	return func(b *pgx.Batch) {
		b.Queue(markRead, c.User.UUID, these)
		audit.Queue(b, audit.Entry{
			Tenant: c.Tenant, By: c.Cause(), Action: "notification.read", Target: s.Naming.Name(c.Tenant.String(), "", "user", c.Principal().String()).String(),
			After: map[string]any{"notifications": len(these)},
		})
	}, nil
}

const (
	// A further event of the same kind about the same resource raises the count of an unread notification of the last day.
	// Lists and partitions follow the id, so an older one would hide the event from users, and end with its month.
	// Notifications about no resource differ in their message.
	notify = `
	WITH raised AS (
		UPDATE notifications SET count = count + 1, title = $7, message = $8, updated_at = now()
		WHERE user_id = ANY ($1::uuid[]) AND kind = $4 AND urn = $6 AND ($6 <> '' OR message = $8)
			AND created_at > now() - interval '1 day' AND read_at IS NULL RETURNING user_id)
	INSERT INTO notifications (id, user_id, org_id, kind, severity, urn, title, message)
	SELECT to_user.id, to_user.user_id, nullif($3::uuid, '00000000-0000-0000-0000-000000000000'), $4, $5, $6, $7, $8
	FROM unnest($1::uuid[], $2::uuid[]) AS to_user (user_id, id) WHERE to_user.user_id NOT IN (SELECT user_id FROM raised)`

	selectNotifications = `
	SELECT id, org_id, kind, severity, urn, title, message, count, created_at, updated_at, read_at FROM notifications
	WHERE user_id = $1 AND (NOT $2 OR read_at IS NULL) AND id < $3 ORDER BY id DESC LIMIT $4`

	selectOwn = `SELECT id FROM notifications WHERE user_id = $1 AND id = ANY ($2)`

	markRead = `UPDATE notifications SET read_at = now() WHERE user_id = $1 AND read_at IS NULL AND ($2::uuid[] IS NULL OR id = ANY ($2))`
)
