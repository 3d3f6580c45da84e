package webhook

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/notification"
)

// workActor is the actor of what a worker does to an endpoint.
const workActor = "system:work"

// state is the change of an endpoint by a batch.
type state struct {
	expired   bool // it has failed for too long
	recovered bool // it works again after the platform has disabled it
}

// changeState disables an endpoint that fails for too long or wants no request, and notifies its owners.
func (s *Service) changeState(ctx context.Context, tx pgx.Tx, e Endpoint, c changed, st state) ([]string, error) {
	switch {
	case c.gone:
		return s.disable(ctx, tx, e, byGone, "The receiver responded 410: it wants no requests any more.")
	case st.expired:
		return s.disable(ctx, tx, e, byFailures, "All attempts of five days have failed.")
	case st.recovered:
		return s.notify(ctx, tx, e, notification.WebhookRecovered,
			fmt.Sprintf("Webhook %s to %s receives events again.", e.Name, hostOf(e.URL)))
	}
	return nil, nil
}

func (s *Service) disable(ctx context.Context, tx pgx.Tx, e Endpoint, why, cause string) ([]string, error) {
	b := &pgx.Batch{}
	b.Queue(disableEndpoint, e.ID, why)
	b.Queue(skipPending, e.ID)
	now := e
	at := s.Clock.Now()
	now.DisabledAt, now.DisabledReason = &at, why
	was, is := audit.Differ(e.fields(), now.fields())
	is["reason"] = why
	audit.Queue(b, audit.Entry{Tenant: e.Tenant, By: audit.By{Actor: workActor}, Action: "webhook.disable", Target: s.urn(e), Before: was, After: is})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, fmt.Errorf("disabling a webhook: %w", err)
	}
	return s.notify(ctx, tx, e, notification.WebhookDisabled, fmt.Sprintf(
		"Webhook %s to %s is disabled. %s Its events are stored. Repair the receiver, enable the webhook, and replay the missed events: gpuaas webhook update %[1]s --enable, then gpuaas webhook replay %[1]s.",
		e.Name, hostOf(e.URL), cause))
}

// notify notifies the users who administer the endpoint.
func (s *Service) notify(ctx context.Context, tx pgx.Tx, e Endpoint, kind, text string) ([]string, error) {
	audience := identity.Roles{Tenant: []string{"owner"}}
	if e.Project != (ids.Project{}) {
		audience.Project = []string{"admin"}
	}
	return s.Notifications.NotifyDirectly(ctx, tx, notification.Direct{
		Tenant: e.Tenant, Project: e.Project, Audience: audience, Kind: kind, URN: s.urn(e), Message: text,
	})
}

// note queues the audit row of a change.
func (s *Service) note(b *pgx.Batch, by identity.Caller, action string, of identity.Resource, before, after audit.Fields) {
	e := audit.Entry{Tenant: of.Tenant, By: by.Cause(), Action: action, Target: s.Identity.Naming.Name(of.Tenant.String(), projectText(of.Project), of.Kind, of.ID).String()}
	if before != nil {
		e.Before = before
	}
	if after != nil {
		e.After = after
	}
	audit.Queue(b, e)
}

// urn names an endpoint.
func (s *Service) urn(e Endpoint) string {
	return s.Identity.Naming.Name(e.Tenant.String(), projectText(e.Project), "webhook", e.ID.String()).String()
}

func projectText(p ids.Project) string {
	if p == (ids.Project{}) {
		return ""
	}
	return p.String()
}
