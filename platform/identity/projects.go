package identity

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
)

// ProjectPatch contains the changes of a project. Nil leaves a field unchanged.
type ProjectPatch struct{ Name, Description *string }

func (p Project) ref() Resource {
	return Resource{Tenant: p.Tenant, Project: p.ID, Kind: "project", ID: p.ID.String()}
}

// seesAll reports whether the caller can see every project of its tenant.
func seesAll(c Caller) bool {
	return c.TenantRole == "owner" || c.TenantRole == "viewer" || c.Role == "admin" || c.Role == "operator"
}

// withRole adds the caller's role to a project, or rejects the caller.
func withRole(c Caller, p Project) (Project, error) {
	switch {
	case c.TenantRole == "owner", c.Role == "admin":
		p.Role = "admin"
	case c.ServiceAccount != (ids.ServiceAccount{}) && c.Project == p.ID:
		p.Role = c.ProjectRole // its scopes limit it further
	case p.Role == "" && !seesAll(c):
		return Project{}, errs.New(errs.Forbidden, "you are not a member of this project")
	}
	return p, nil
}

// ProjectPage lists by name the projects of the tenant that the caller sees and whose name contains part.
func (s *Service) ProjectPage(ctx context.Context, c Caller, part, after string, limit int) ([]Project, error) {
	all, err := pg.List(ctx, s.DB, "projects", selectProjectPage, scanProject, c.Tenant, c.User, after, limit, seesAll(c), c.Project, part)
	for i, p := range all {
		if all[i], err = withRole(c, p); err != nil {
			return nil, err
		}
	}
	return all, err
}

// ProjectByID reads one project of the tenant that the caller sees.
func (s *Service) ProjectByID(ctx context.Context, c Caller, id ids.Project) (Project, error) {
	p, err := pg.One(ctx, s.DB, "project", selectProjectByID, scanProject, c.Tenant, c.User, id)
	if err != nil {
		return Project{}, err
	}
	return withRole(c, p)
}

// Administered reads a project whose members and service accounts the caller administers.
func (s *Service) Administered(ctx context.Context, c Caller, id ids.Project) (Project, error) {
	p, err := s.ProjectByID(ctx, c, id)
	if err == nil && p.Role != "admin" {
		err = errs.New(errs.Forbidden, "you do not administer this project").Try("contact an administrator of it, or an owner of the tenant")
	}
	return p, err
}

// CreateProject makes a project, which its creator administers.
func (s *Service) CreateProject(ctx context.Context, ch Change[Project], name, description string) (Project, error) {
	if err := CheckLabel(name); err != nil {
		return Project{}, err
	}
	description, err := CheckText("description", description, 0, MaxDescription)
	if err != nil {
		return Project{}, err
	}
	c := ch.Caller
	return ch.Apply(ctx, s, func() (Project, func(*pgx.Batch), error) {
		p := Project{ID: ids.New[ids.Project](), Tenant: c.Tenant, Name: name, Description: description, Role: "admin", Version: 1, CreatedAt: s.Now()}
		p.UpdatedAt = p.CreatedAt
		return p, func(b *pgx.Batch) {
			queueLockTenant(b, c.Tenant)
			b.Queue(insertProject, p.ID, p.Tenant, p.Name, p.Description, p.CreatedAt).Exec(pg.OrElse(
				errs.New(errs.AlreadyExists, "the tenant has a project of this name").At("name").Try("choose another name")))
			b.Queue(putProjectMember, c.Tenant, p.ID, c.User, p.Role) // not of programs
			s.Note(b, c, "project.create", p.ref(), nil, audit.Fields{"name": p.Name, "description": p.Description})
		}, nil
	})
}

// UpdateProject changes what a project is called.
func (s *Service) UpdateProject(ctx context.Context, ch Change[Project], id ids.Project, version int64, patch ProjectPatch) (Project, error) {
	return ch.ApplyToRights(ctx, s, func() (Project, func(*pgx.Batch), error) {
		p, err := s.Administered(ctx, ch.Caller, id)
		if err == nil {
			err = CheckVersion(version, p.Version)
		}
		if err != nil {
			return p, nil, err
		}
		old := p
		if err := patch.apply(&p); err != nil {
			return p, nil, err
		}
		was, is := audit.Differ(old.fields(), p.fields())
		if len(is) == 0 {
			return p, nil, nil
		}
		p.Version, p.UpdatedAt = p.Version+1, s.Now()
		return p, func(b *pgx.Batch) {
			b.Queue(updateProject, id, old.Version, p.Name, p.Description, p.UpdatedAt).Exec(pg.OrElse(ErrRaced))
			s.Note(b, ch.Caller, "project.update", p.ref(), was, is)
		}, nil
	})
}

func (p Project) fields() audit.Fields {
	return audit.Fields{"name": p.Name, "description": p.Description}
}

func (patch ProjectPatch) apply(p *Project) (err error) {
	if patch.Name != nil {
		p.Name = *patch.Name
		err = CheckLabel(p.Name)
	}
	if patch.Description != nil && err == nil {
		p.Description, err = CheckText("description", *patch.Description, 0, MaxDescription)
	}
	return err
}

// QueueCloseProject closes a project that was read with ProjectByID, with its service accounts. It locks
// the project first, so a statement that the caller queues after it counts rows that no other
// transaction can add to. Call RightsChanged after the commit.
func (s *Service) QueueCloseProject(b *pgx.Batch, ch Change[struct{}], p Project, version int64) error {
	if p.Role != "admin" {
		return errs.New(errs.Forbidden, "you do not administer this project")
	}
	if err := CheckVersion(version, p.Version); err != nil {
		return err
	}
	s.QueueKey(b, ch.Key, ch.reply(struct{}{}))
	queueLockTenant(b, p.Tenant)
	QueueLockProject(b, p.ID)
	b.Queue(closeProject, p.ID, version).Exec(func(tag pgconn.CommandTag) error {
		if tag.RowsAffected() == 0 {
			return errs.New(errs.VersionMismatch, "the project was changed meanwhile").Try("read it again")
		}
		return nil
	})
	b.Queue(disableAccounts, p.ID)
	s.Note(b, ch.Caller, "project.delete", p.ref(), p.fields(), nil)
	return nil
}
