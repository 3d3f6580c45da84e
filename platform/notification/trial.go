package notification

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	mails "github.com/gpuaas/gpuaas/platform/notification/mail"
)

// testKind is the kind of the notifications that users request for a test. No event causes it, so it is in no list.
var testKind = kind{name: "test", severity: Warning, audience: audience{name: "the user who has requested it"}, screen: "profile", title: "Test"}

func kindOrTest(name string) (kind, error) {
	if name == testKind.name {
		return testKind, nil
	}
	return kindNamed(name)
}

// Tested is the result of a test.
type Tested struct {
	ID       uuid.UUID
	Channels []TestedChannel
}

// TestedChannel is the result of a channel; a reason states why it was not used.
type TestedChannel struct {
	Channel Channel
	Reason  string
}

// Test sends the caller a notification over each channel. The second function runs in the transaction of the statements.
func (s *Service) Test(ctx context.Context, c identity.Caller) (Tested, func(*pgx.Batch), func(pgx.Tx) error, error) {
	if c.User == (ids.User{}) || c.ServiceAccount != (ids.ServiceAccount{}) {
		return Tested{}, nil, nil, errs.New(errs.Forbidden, "a service account is not notified").Try("sign in as a user")
	}
	address, err := s.address(ctx, s.DB, c)
	if err != nil {
		return Tested{}, nil, nil, err
	}
	made := Tested{ID: uuid.Must(uuid.NewV7()), Channels: []TestedChannel{{Channel: InApp}, {Channel: Email, Reason: address.reason()}}}
	write := func(b *pgx.Batch) {
		var tenant *uuid.UUID
		if c.Tenant != (ids.Tenant{}) {
			tenant = &c.Tenant.UUID
		}
		b.Queue(insertTest, made.ID, c.User, tenant, testKind.title, "This is a test. Nothing has happened.", c.Cause().CorrelationID)
		audit.Queue(b, audit.Entry{
			Tenant: c.Tenant, By: c.Cause(), Action: "notification.test", Target: s.Naming.Name(c.Tenant.String(), "", "notification", made.ID.String()).String(),
		})
	}
	queue := func(tx pgx.Tx) error {
		if made.Channels[1].Reason != "" {
			return nil
		}
		return s.enqueue(ctx, tx, mails.FromNotification, []uuid.UUID{made.ID})
	}
	return made, write, queue, nil
}

// reason states why no e-mail is sent to the address.
func (a Address) reason() string {
	switch {
	case !a.Enabled:
		return "the policy notification.email_enabled is off"
	case !a.Verified:
		return "no sign-in provider has verified the e-mail address"
	case a.SuppressedAt != nil:
		return "the address is suppressed: " + *a.SuppressedReason
	}
	return ""
}
