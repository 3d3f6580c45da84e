// Package notification notifies users about events. Each kind of notification is a consumer of one subject,
// and a row of the table of kinds. The package changes nothing that an event is about.
package notification

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/clock"
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
	Clock  clock.Clock
	// Policy reads the policies of a user about the resources of a tenant or project.
	Policy func(ids.Tenant, ids.Project, ids.User) policies.View
	// Jobs inserts the jobs that send e-mails; services.Enqueue sets it.
	Jobs    *river.Client[pgx.Tx]
	Mail    MailConfig
	Metrics *Metrics
}

// PolicyFrom returns the function for Service.Policy.
func PolicyFrom(c *policies.Client) func(ids.Tenant, ids.Project, ids.User) policies.View {
	return func(tenant ids.Tenant, project ids.Project, user ids.User) policies.View {
		return c.Latest().For(append(identity.TenantScopes(tenant, project), policies.In(policies.LevelUser, user.String()))...)
	}
}

// Notification is a message to a user.
type Notification struct {
	ID       uuid.UUID
	Tenant   *uuid.UUID // nil: about the platform
	Kind     string
	Severity Severity
	URN      string // of the resource; empty for dead letters
	Title    string
	Message  string
	Count    int // events of this kind about the resource within a day, until it is read
	// CorrelationID is that of the last event; empty: no request has caused it.
	CorrelationID string
	CreatedAt     time.Time
	UpdatedAt     time.Time
	ReadAt        *time.Time
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

// effect notifies the users of the audience whose policies and preferences allow the kind.
func (s *Service) effect(k kind) func(context.Context, pgx.Tx, event.Event) ([]string, error) {
	return func(ctx context.Context, tx pgx.Tx, e event.Event) (topics []string, err error) {
		about, err := k.render(e)
		if err != nil {
			return nil, err
		}
		users, err := k.audience.users(ctx, tx, e)
		if err != nil {
			return nil, err
		}
		return s.notify(ctx, tx, k, e, about, users)
	}
}

// delivery is one notification of one user.
type delivery struct {
	user  ids.User
	id    uuid.UUID
	inApp bool
	email Value
	due   time.Time // of the e-mail; zero: at once
}

// deliveries returns the users who are notified, each by their preferences.
func (s *Service) deliveries(ctx context.Context, q pg.Queryer, k kind, e event.Event, users []uuid.UUID) (all []delivery, err error) {
	preferences, err := read(ctx, q, append(slices.Clone(users), e.Tenant.UUID))
	if err != nil {
		return nil, err
	}
	for _, u := range users {
		user := ids.From[ids.User](u)
		policy := s.Policy(e.Tenant, e.Project, user)
		if k.enabled != "" && !policy.Bool(k.enabled) {
			continue
		}
		d := s.delivery(k, user, inEffect{user: preferences[u], tenant: preferences[e.Tenant.UUID]})
		if !policy.Bool(policies.NotificationEmailEnabled) {
			d.email = Off
		}
		if d.inApp || d.email != Off {
			all = append(all, d)
		}
	}
	return all, nil
}

// delivery applies preferences. The e-mails of critical kinds do not wait for the end of quiet hours: what they warn of may
// happen before it.
func (s *Service) delivery(k kind, user ids.User, e inEffect) delivery {
	inApp, _ := e.value(k, InApp)
	email, _ := e.value(k, Email)
	d := delivery{user: user, id: uuid.Must(uuid.NewV7()), inApp: inApp == Now, email: email}
	quiet, now := e.quiet(), s.Clock.Now()
	if k.severity == Critical && email == Now {
		quiet = nil
	}
	if at := due(email, now, e.zone(), quiet); at.After(now) {
		d.due = at
	}
	return d
}

// deliver stores the notifications, and queues their e-mails.
func (s *Service) deliver(ctx context.Context, tx pgx.Tx, k kind, e event.Event, about content, to []delivery) error {
	var users, made []uuid.UUID
	var inApp []bool
	for _, d := range to {
		users, made, inApp = append(users, d.user.UUID), append(made, d.id), append(inApp, d.inApp)
	}
	type row struct {
		User, ID uuid.UUID
		Raised   bool
	}
	rows, err := pg.List(ctx, tx, "notifications", notify, pgx.RowToStructByPos[row], users, made, e.Tenant.UUID, k.name, k.severity, about.urn, about.title, about.message, inApp, e.CorrelationID, k.distinct())
	if err != nil {
		return err
	}
	stored := make(map[uuid.UUID]row, len(rows))
	for _, r := range rows {
		stored[r.User] = r
	}
	for _, d := range to {
		if d.inApp {
			s.Metrics.count(k.name, InApp, "sent")
		}
	}
	var mailed []delivery
	for _, d := range to {
		r := stored[d.user.UUID]
		// One that was raised is in the next digest. Its own e-mail was sent.
		if d.email != Off && (!r.Raised || d.email != Now) {
			d.id = r.ID
			mailed = append(mailed, d)
		}
	}
	return s.queueMails(ctx, tx, mailed)
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
	// Notifications about no resource, and distinct ones, differ in their message. Those that are off in the application are
	// never unread.
	notify = `
	WITH raised AS (
		UPDATE notifications n SET count = count + 1, title = $7, message = $8, correlation_id = $10, updated_at = now()
		FROM unnest($1::uuid[], $9::boolean[]) AS to_user (user_id, in_app)
		WHERE n.user_id = to_user.user_id AND n.in_app = to_user.in_app AND n.kind = $4 AND n.urn = $6 AND ($6 <> '' AND NOT $11 OR n.message = $8)
			AND n.created_at > now() - interval '1 day' AND (n.read_at IS NULL OR NOT n.in_app) RETURNING n.user_id, n.id),
	made AS (
	INSERT INTO notifications (id, user_id, org_id, kind, severity, urn, title, message, in_app, correlation_id, read_at)
	SELECT to_user.id, to_user.user_id, nullif($3::uuid, '00000000-0000-0000-0000-000000000000'), $4, $5, $6, $7, $8, to_user.in_app, $10,
		CASE WHEN NOT to_user.in_app THEN now() END
	FROM unnest($1::uuid[], $2::uuid[], $9::boolean[]) AS to_user (user_id, id, in_app)
	WHERE to_user.user_id NOT IN (SELECT user_id FROM raised) RETURNING user_id, id)
	SELECT user_id, id, true FROM raised UNION ALL SELECT user_id, id, false FROM made`

	selectNotifications = `
	SELECT id, org_id, kind, severity, urn, title, message, count, correlation_id, created_at, updated_at, read_at FROM notifications
	WHERE user_id = $1 AND in_app AND (NOT $2 OR read_at IS NULL) AND id < $3 ORDER BY id DESC LIMIT $4`

	selectOwn = `SELECT id FROM notifications WHERE user_id = $1 AND in_app AND id = ANY ($2)`

	markRead = `UPDATE notifications SET read_at = now() WHERE user_id = $1 AND read_at IS NULL AND ($2::uuid[] IS NULL OR id = ANY ($2))`
)
