package keys

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/revocation"
)

// ServiceAccount is a program that acts for a project. Scopes are the most that
// its tokens may be given.
type ServiceAccount struct {
	ID                     ids.ServiceAccount
	Tenant                 ids.Tenant
	Project                ids.Project
	Name, Description      string
	Scopes                 []string
	Version                int64
	CreatedAt, UpdatedAt   time.Time
	LastUsedAt, DisabledAt *time.Time
}

// NewServiceAccount contains the properties of a new service account.
type NewServiceAccount struct {
	Name, Description string
	Scopes            []string
}

// ServiceAccountPatch contains the changes of a service account. Nil leaves a field unchanged.
type ServiceAccountPatch struct {
	Name, Description *string
	Scopes            *[]string
	Disabled          *bool
}

func (a ServiceAccount) ref() identity.Resource {
	return identity.Resource{Tenant: a.Tenant, Project: a.Project, Kind: "service-account", ID: a.ID.String()}
}

func (a ServiceAccount) fields() audit.Fields {
	return audit.Fields{"name": a.Name, "description": a.Description, "scopes": a.Scopes, "disabled": a.DisabledAt != nil}
}

func scanServiceAccount(row pgx.CollectableRow) (a ServiceAccount, err error) {
	err = row.Scan(&a.ID, &a.Tenant, &a.Project, &a.Name, &a.Description, &a.Scopes, &a.Version, &a.CreatedAt, &a.UpdatedAt, &a.LastUsedAt, &a.DisabledAt)
	return a, err
}

// ServiceAccounts lists those of a project by name.
func (s *Service) ServiceAccounts(ctx context.Context, c identity.Caller, project ids.Project, after string, limit int) ([]ServiceAccount, error) {
	if _, err := s.ProjectByID(ctx, c, project); err != nil {
		return nil, err
	}
	return pg.List(ctx, s.DB, "service accounts", selectServiceAccounts, scanServiceAccount, project, after, limit)
}

// ServiceAccountByID reads one whose project the caller administers.
func (s *Service) ServiceAccountByID(ctx context.Context, c identity.Caller, id ids.ServiceAccount) (ServiceAccount, error) {
	a, err := pg.One(ctx, s.DB, "service account", selectServiceAccount, scanServiceAccount, c.Tenant, id)
	if err == nil {
		_, err = s.Administered(ctx, c, a.Project)
	}
	if err != nil {
		return ServiceAccount{}, err
	}
	return a, nil
}

// ProjectOfAccount returns the project of a service account of the caller's tenant. An administrator of
// the platform finds the accounts of all tenants.
func (s *Service) ProjectOfAccount(ctx context.Context, c identity.Caller, id ids.ServiceAccount) (ids.Project, error) {
	// This query runs before authorisation, which gives the request its scope.
	return pg.One(pg.WithScope(ctx, pg.Platform), s.DB, "service account", selectProjectOfAccount, pgx.RowTo[ids.Project], c.Tenant, id, c.Role == "admin")
}

// CreateServiceAccount makes one. It has no credential yet.
func (s *Service) CreateServiceAccount(ctx context.Context, ch identity.Change[ServiceAccount], project ids.Project, n NewServiceAccount) (ServiceAccount, error) {
	a := ServiceAccount{Tenant: ch.Caller.Tenant, Project: project, Version: 1}
	err := ServiceAccountPatch{Name: &n.Name, Description: &n.Description, Scopes: &n.Scopes}.apply(&a, ch.Caller, s.Now())
	if err != nil {
		return ServiceAccount{}, err
	}
	return ch.Apply(ctx, s.Service, func() (ServiceAccount, func(*pgx.Batch), error) {
		_, err := s.Administered(ctx, ch.Caller, project)
		a.ID, a.CreatedAt = ids.New[ids.ServiceAccount](), s.Now()
		a.UpdatedAt = a.CreatedAt
		return a, func(b *pgx.Batch) {
			identity.QueueLockProject(b, project)
			b.Queue(insertServiceAccount, a.ID, a.Tenant, a.Project, a.Name, a.Description, a.Scopes, ch.Caller.Principal(), a.CreatedAt).Exec(pg.OrElse(
				errs.New(errs.AlreadyExists, "the project has a service account of this name").At("name").Try("choose another name")))
			s.Note(b, ch.Caller, "service_account.create", a.ref(), nil, a.fields())
		}, err
	})
}

func (patch ServiceAccountPatch) apply(a *ServiceAccount, c identity.Caller, now time.Time) (err error) {
	if patch.Name != nil {
		a.Name = *patch.Name
		err = identity.CheckLabel(a.Name)
	}
	if patch.Description != nil && err == nil {
		a.Description, err = identity.CheckText("description", *patch.Description, 0, identity.MaxDescription)
	}
	if patch.Scopes != nil && err == nil {
		if a.Scopes, err = checkScopes(c, *patch.Scopes); err == nil && len(a.Scopes) == 0 {
			err = errs.Invalid("scopes", "must name at least one")
		}
	}
	switch {
	case patch.Disabled == nil || *patch.Disabled == (a.DisabledAt != nil):
	case *patch.Disabled:
		a.DisabledAt = &now
	default:
		a.DisabledAt = nil
	}
	return err
}

// grows reports whether the tokens of an account can do more than before.
func (a ServiceAccount) grows(old ServiceAccount) bool {
	return a.DisabledAt == nil && old.DisabledAt != nil ||
		slices.ContainsFunc(a.Scopes, func(scope string) bool { return !slices.Contains(old.Scopes, scope) })
}

// UpdateServiceAccount changes a service account. Existing tokens lose the scopes that the account
// loses.
func (s *Service) UpdateServiceAccount(ctx context.Context, ch identity.Change[ServiceAccount], id ids.ServiceAccount, version int64, patch ServiceAccountPatch) (ServiceAccount, error) {
	made, err := ch.ApplyWith(ctx, s.Service, func() (ServiceAccount, func(*pgx.Batch), error) {
		a, err := s.ServiceAccountByID(ctx, ch.Caller, id)
		if err == nil {
			err = identity.CheckVersion(version, a.Version)
		}
		if err != nil {
			return a, nil, err
		}
		old := a
		if err := patch.apply(&a, ch.Caller, s.Now()); err != nil {
			return a, nil, err
		}
		if a.grows(old) {
			if err := s.Recent(ch.Caller); err != nil {
				return a, nil, err
			}
		}
		was, is := audit.Differ(old.fields(), a.fields())
		if len(is) == 0 {
			return a, nil, nil
		}
		a.Version, a.UpdatedAt = a.Version+1, s.Now()
		return a, func(b *pgx.Batch) {
			b.Queue(updateServiceAccount, id, old.Version, a.Name, a.Description, a.Scopes, a.DisabledAt, a.UpdatedAt).Exec(pg.OrElse(identity.ErrRaced))
			s.Note(b, ch.Caller, "service_account.update", a.ref(), was, is)
		}, nil
	}, s.rekeyOf(ctx, id))
	if err == nil {
		s.RightsChanged()
	}
	return made, err
}

// rekeyOf makes the allocations of a service account follow a change of it.
func (s *Service) rekeyOf(ctx context.Context, id ids.ServiceAccount) func(pgx.Tx) error {
	return s.rekey(ctx, identity.Caller{ServiceAccount: id})
}

// DeleteServiceAccount ends one, all of its credentials and its SSH keys. Its row stays: allocations and
// audit rows name it.
func (s *Service) DeleteServiceAccount(ctx context.Context, ch identity.Change[struct{}], id ids.ServiceAccount, version int64) error {
	ended := revocation.Ended{}
	_, err := ch.ApplyWith(pg.WithScope(ctx, pg.Platform), s.Service, func() (none struct{}, _ func(*pgx.Batch), _ error) {
		a, err := s.ServiceAccountByID(ctx, ch.Caller, id)
		if err == nil {
			err = identity.CheckVersion(version, a.Version)
		}
		return none, func(b *pgx.Batch) {
			b.Queue(deleteServiceAccount, id, a.Version).Exec(pg.OrElse(identity.ErrRaced))
			b.Queue(revokeCredentials, id)
			ended.QueueSSHKeys(b, id, nil)
			s.Note(b, ch.Caller, "service_account.delete", a.ref(), a.fields(), nil)
		}, err
	}, s.rekeyOf(ctx, id))
	if err == nil {
		s.RightsChanged()
	}
	return err
}
