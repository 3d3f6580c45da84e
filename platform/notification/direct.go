package notification

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// Direct is a notification without an event: its cause is a state of a package above, which writes it in the transaction of
// the change.
type Direct struct {
	Tenant   ids.Tenant
	Project  ids.Project
	Audience identity.Roles
	Kind     string // one of the kinds without an event
	URN      string
	Message  string
}

// NotifyDirectly notifies the users of the audience whose preferences allow the kind, and returns the topics of the hints
// to send after the commit.
func (s *Service) NotifyDirectly(ctx context.Context, tx pgx.Tx, d Direct) (topics []string, err error) {
	k, err := kindNamed(d.Kind)
	if err != nil {
		return nil, err
	}
	users, err := identity.UsersWithRoles(ctx, tx, d.Tenant, d.Project, d.Audience)
	if err != nil {
		return nil, err
	}
	return s.notify(ctx, tx, k, event.Event{Tenant: d.Tenant, Project: d.Project}, content{urn: d.URN, title: k.title, message: d.Message}, users)
}

// notify stores the notifications of these users, and queues their e-mails.
func (s *Service) notify(ctx context.Context, tx pgx.Tx, k kind, e event.Event, about content, users []uuid.UUID) (topics []string, err error) {
	to, err := s.deliveries(ctx, tx, k, e, users)
	if err == nil && k.subject != "" && slices.ContainsFunc(to, func(d delivery) bool { return d.email != Off }) {
		err = k.checkMail(about)
	}
	if err == nil {
		err = s.deliver(ctx, tx, k, e, about, to)
	}
	if err != nil {
		return nil, fmt.Errorf("notifying about %s: %w", about.urn, err)
	}
	for _, d := range to {
		topics = append(topics, Topic(d.user))
	}
	return topics, nil
}

// Describe returns title and message of the notification of an event. Both are empty for an event without one.
func Describe(e event.Event) (title, message string) {
	for _, k := range kinds() {
		if k.subject != e.Type {
			continue
		}
		if c, err := k.render(e); err == nil {
			return c.title, c.message
		}
	}
	return "", ""
}
