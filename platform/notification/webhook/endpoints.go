package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// overlap is the time for which both secrets sign after a rotation.
const overlap = 24 * time.Hour

// List lists the endpoints of a scope by name, after one.
func (s *Service) List(ctx context.Context, in Scope, after string, limit int) ([]Endpoint, error) {
	return pg.List(ctx, s.DB, "webhooks", selectEndpoints, scanEndpoint, in.Tenant, in.Project, after, limit)
}

// Get reads an endpoint of a scope.
func (s *Service) Get(ctx context.Context, in Scope, id ids.Webhook) (Endpoint, error) {
	return pg.One(ctx, s.DB, "webhook", selectEndpoint, scanEndpoint, in.Tenant, in.Project, id)
}

// NewEndpoint contains the properties of a new endpoint.
type NewEndpoint struct {
	Name, URL string
	Patterns  []string
	Project   ids.Project
	Format    Format
	Signature Signature
	Secret    string // of the caller; empty: one of ours
}

// Create creates an endpoint. Its secret is in the result only.
func (s *Service) Create(ctx context.Context, ch identity.Change[Endpoint], in Scope, n NewEndpoint) (Endpoint, error) {
	e, err := s.draft(ctx, ch.Caller, in, n)
	if err != nil {
		return Endpoint{}, err
	}
	k, err := newKey(e.Signature, n.Secret)
	if err != nil {
		return Endpoint{}, err
	}
	return ch.Apply(ctx, s.Identity, func() (Endpoint, func(*pgx.Batch), error) {
		if err := s.checkNew(ctx, e); err != nil {
			return e, nil, err
		}
		e.ID, e.Version, e.CreatedAt = ids.New[ids.Webhook](), 1, s.Clock.Now()
		e.UpdatedAt = e.CreatedAt
		e.Secret, e.PublicKey = k.texts(e.Signature)
		return e, func(b *pgx.Batch) {
			b.Queue(lockTenant, e.Tenant)
			b.Queue(insertEndpoint, e.ID, e.Tenant, e.Project, e.Name, e.URL, e.Patterns, e.Format, e.Signature, e.PublicKey, s.Seal.Seal(k, secretAt(e.ID)),
				ch.Caller.Actor(), e.CreatedAt, s.MaxEndpoints(e.Tenant)).Exec(pg.OrElse(identity.ErrRaced))
			s.note(b, ch.Caller, "webhook.create", e.ref(), nil, e.fields())
		}, nil
	})
}

// draft checks the properties of a new endpoint.
func (s *Service) draft(ctx context.Context, c identity.Caller, in Scope, n NewEndpoint) (e Endpoint, err error) {
	e = Endpoint{Tenant: in.Tenant, Project: n.Project, Name: n.Name, Format: n.Format, Signature: n.Signature}
	if e.Project == (ids.Project{}) {
		e.Project = in.Project
	}
	if in.Project != (ids.Project{}) && e.Project != in.Project {
		return e, errs.New(errs.NotFound, "no such project")
	}
	if e.Project != (ids.Project{}) {
		if _, err := s.Identity.ProjectByID(ctx, c, e.Project); err != nil {
			return e, err
		}
	}
	if err := identity.CheckLabel(e.Name); err != nil {
		return e, err
	}
	if e.Patterns, err = checkPatterns(e.Project, n.Patterns); err != nil {
		return e, err
	}
	e.URL, err = checkURL(n.URL, s.Sender.Development)
	return e, err
}

// checkNew rejects an endpoint above the limit, or with a name that exists. The statement checks both again.
func (s *Service) checkNew(ctx context.Context, e Endpoint) error {
	var n int64
	var taken bool
	if err := s.DB.QueryRow(ctx, countEndpoints, e.Tenant, e.Name).Scan(&n, &taken); err != nil {
		return err
	}
	if most := s.MaxEndpoints(e.Tenant); n >= most {
		return errs.New(errs.PolicyDenied, "the tenant has %d webhooks, and policy notification.webhook_endpoints allows %d", n, most).
			Try("delete a webhook, or request a higher limit from an operator").With("policy", "notification.webhook_endpoints")
	}
	if taken {
		return nameTaken()
	}
	return nil
}

func nameTaken() error {
	return errs.New(errs.AlreadyExists, "the tenant has a webhook of this name").At("name").Try("choose another name")
}

// Patch contains the changes of an endpoint. Nil leaves a field unchanged.
type Patch struct {
	Name, URL *string
	Patterns  []string
	Format    *Format
	Disabled  *bool
}

// Update changes an endpoint. One that is enabled begins without failures.
func (s *Service) Update(ctx context.Context, ch identity.Change[Endpoint], in Scope, id ids.Webhook, version int64, patch Patch) (Endpoint, error) {
	return ch.Apply(ctx, s.Identity, func() (Endpoint, func(*pgx.Batch), error) {
		old, err := s.Get(ctx, in, id)
		if err == nil {
			err = identity.CheckVersion(version, old.Version)
		}
		if err != nil {
			return old, nil, err
		}
		e := old
		if err := s.apply(ctx, patch, &e); err != nil {
			return old, nil, err
		}
		was, is := audit.Differ(old.fields(), e.fields())
		if old.URL != e.URL { // only its server is stored
			was["url"], is["url"] = "(before)", "(changed)"
		}
		if len(is) == 0 {
			return old, nil, nil
		}
		e.Version, e.UpdatedAt = old.Version+1, s.Clock.Now()
		return e, func(b *pgx.Batch) {
			b.Queue(updateEndpoint, id, old.Version, e.Name, e.URL, e.Patterns, e.Format, e.DisabledAt, e.DisabledReason, e.UpdatedAt).Exec(pg.OrElse(identity.ErrRaced))
			if e.DisabledAt != nil && old.DisabledAt == nil {
				b.Queue(skipPending, id)
			}
			s.note(b, ch.Caller, "webhook.update", e.ref(), was, is)
		}, nil
	})
}

func (s *Service) apply(ctx context.Context, patch Patch, e *Endpoint) (err error) {
	if patch.Name != nil && *patch.Name != e.Name {
		var n int64
		var taken bool
		if err := s.DB.QueryRow(ctx, countEndpoints, e.Tenant, *patch.Name).Scan(&n, &taken); err != nil {
			return err
		}
		if taken {
			return nameTaken()
		}
		e.Name = *patch.Name
		err = identity.CheckLabel(e.Name)
	}
	if patch.URL != nil && err == nil {
		if *patch.URL != e.URL { // the failures of the previous one do not count
			e.FailingSince, e.BlockedUntil = nil, nil
		}
		e.URL, err = checkURL(*patch.URL, s.Sender.Development)
	}
	if patch.Patterns != nil && err == nil {
		e.Patterns, err = checkPatterns(e.Project, patch.Patterns)
	}
	if patch.Format != nil {
		e.Format = *patch.Format
	}
	if patch.Disabled == nil || *patch.Disabled == (e.DisabledAt != nil) {
		return err
	}
	if e.DisabledAt, e.DisabledReason = nil, ""; *patch.Disabled {
		now := s.Clock.Now()
		e.DisabledAt, e.DisabledReason = &now, byUser
	} else {
		e.FailingSince, e.BlockedUntil = nil, nil
	}
	return err
}

// Delete deletes an endpoint with its secrets. Its deliveries go with their month.
func (s *Service) Delete(ctx context.Context, ch identity.Change[struct{}], in Scope, id ids.Webhook, version int64) error {
	_, err := ch.Apply(ctx, s.Identity, func() (none struct{}, _ func(*pgx.Batch), _ error) {
		e, err := s.Get(ctx, in, id)
		if err == nil {
			err = identity.CheckVersion(version, e.Version)
		}
		return none, func(b *pgx.Batch) {
			b.Queue(deleteEndpoint, id, e.Version).Exec(pg.OrElse(identity.ErrRaced))
			s.note(b, ch.Caller, "webhook.delete", e.ref(), e.fields(), nil)
		}, err
	})
	return err
}

// DeleteOf deletes the endpoints of a tenant that is deleted, with their secrets.
func DeleteOf(ctx context.Context, tx pgx.Tx, tenant ids.Tenant) error {
	if _, err := tx.Exec(ctx, deleteOf, tenant); err != nil {
		return fmt.Errorf("deleting the webhooks of tenant %s: %w", tenant, err)
	}
	return nil
}

// Rotate gives an endpoint a new secret. The old one signs, too, until the end of the overlap.
func (s *Service) Rotate(ctx context.Context, ch identity.Change[Endpoint], in Scope, id ids.Webhook, wanted string) (Endpoint, error) {
	return ch.Apply(ctx, s.Identity, func() (Endpoint, func(*pgx.Batch), error) {
		e, err := s.Get(ctx, in, id)
		if err != nil {
			return e, nil, err
		}
		now := s.Clock.Now()
		if e.PreviousUntil != nil && now.Before(*e.PreviousUntil) {
			return e, nil, errs.New(errs.Conflict, "the secret was rotated less than 24 hours ago, and the one before still signs").
				Try("rotate it again after %s", e.PreviousUntil.UTC().Format(time.RFC3339))
		}
		k, err := newKey(e.Signature, wanted)
		if err != nil {
			return e, nil, err
		}
		old, err := s.Seal.Open(ctx, e.sealed, secretAt(id))
		if err != nil {
			return e, nil, err
		}
		before, until := e.Version, now.Add(overlap)
		e.Version, e.UpdatedAt, e.PreviousUntil = before+1, now, &until
		e.Secret, e.PublicKey = k.texts(e.Signature)
		return e, func(b *pgx.Batch) {
			b.Queue(rotateEndpoint, id, before, s.Seal.Seal(k, secretAt(id)), e.PublicKey, s.Seal.Seal(old, previousAt(id)), until, now).Exec(pg.OrElse(identity.ErrRaced))
			s.note(b, ch.Caller, "webhook.rotate_secret", e.ref(), nil, audit.Fields{"overlap_until": until})
		}, nil
	})
}

// jobsOf returns the insertion of the job of an endpoint.
func jobsOf(id ids.Webhook) []river.InsertManyParams {
	return []river.InsertManyParams{{Args: DeliverWebhook{Endpoint: id.UUID}}}
}
