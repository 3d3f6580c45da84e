package identity

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
)

// Project scopes what a tenant uses.
type Project struct {
	ID        ids.Project
	Tenant    ids.Tenant
	Name      string
	Role      string // of the caller in it; empty when they have none
	CreatedAt time.Time
	UpdatedAt time.Time

	Description string
	Version     int64

	tenantName string
}

type projectRequest struct {
	user   ids.User
	tenant ids.Tenant
	name   string
}

// InProject returns the caller acting in one project of its tenant. The project is named by its id or
// its name; without one, it is the tenant's only project. Owners of the tenant administer every project
// of it. A service account acts in its own project. A caller without a role in the project gets
// forbidden, except for operations that its role in the tenant allows.
func (s *Service) InProject(ctx context.Context, c Caller, projectID string) (Caller, error) {
	key := projectRequest{c.User, c.Tenant, projectID}
	now := s.Clock.Now()
	epoch := s.RightsEpoch()
	p, found := s.projects.Get(key, epoch, now)
	if !found {
		var err error
		if p, err = s.findProject(ctx, c, projectID); err != nil {
			return Caller{}, err
		}
		s.projects.Put(key, p, epoch, now.Add(CachedFor))
	}
	switch {
	case p.Tenant != c.Tenant: // an administrator of the platform acts for another tenant
		c.Tenant, c.TenantName, c.TenantRole, c.ProjectRole = p.Tenant, p.tenantName, "", ""
	case p.Role != "":
		c.ProjectRole = p.Role
	case c.TenantRole == "owner":
		c.ProjectRole = "admin"
	case c.ServiceAccount == (ids.ServiceAccount{}) || c.Project != p.ID:
		c.Project, c.ProjectRole = p.ID, ""
		return c, errs.New(errs.Forbidden, "you are not a member of this project")
	}
	c.Project = p.ID
	return c, nil
}

func (s *Service) findProject(ctx context.Context, c Caller, asked string) (Project, error) {
	ctx = unscoped(ctx)
	if asked == "" {
		return s.onlyProject(ctx, c)
	}
	var p Project
	id, err := uuid.Parse(asked)
	if err != nil {
		id = uuid.Nil // then it is a name
	}
	err = s.DB.QueryRow(ctx, selectProject, c.Tenant.UUID, id, asked, c.User.UUID, c.Role == "admin").
		Scan(&p.ID.UUID, &p.Tenant.UUID, &p.Name, &p.Role, &p.CreatedAt, &p.Description, &p.Version, &p.UpdatedAt, &p.tenantName)
	if errors.Is(err, pgx.ErrNoRows) {
		return Project{}, errs.New(errs.NotFound, "no such project")
	}
	if err != nil {
		return Project{}, fmt.Errorf("finding a Project: %w", err)
	}
	return p, nil
}

func (s *Service) onlyProject(ctx context.Context, c Caller) (Project, error) {
	all, err := s.Projects(ctx, c)
	if err != nil {
		return Project{}, err
	}
	if len(all) != 1 {
		return Project{}, errs.New(errs.ProjectRequired, "your tenant has %d projects: name one", len(all)).
			At("X-Project-ID").Try("set X-Project-ID to the id or the name of a project")
	}
	return all[0], nil
}

// ProjectRoles returns the roles of the caller in the projects of the tenant. An owner administers all of them.
func (s *Service) ProjectRoles(ctx context.Context, c Caller) ([]string, error) {
	if c.TenantRole == "owner" {
		return []string{"admin"}, nil
	}
	all, err := s.Projects(unscoped(ctx), c)
	roles := make([]string, 0, len(all))
	for _, p := range all {
		if p.Role != "" {
			roles = append(roles, p.Role)
		}
	}
	return roles, err
}

type tenantUser struct {
	tenant ids.Tenant
	user   ids.User
}

// ProjectsWithRole returns the projects of the tenant in which the caller has a role.
func (s *Service) ProjectsWithRole(ctx context.Context, c Caller) (map[ids.Project]bool, error) {
	key, epoch, now := tenantUser{c.Tenant, c.User}, s.RightsEpoch(), s.Clock.Now()
	if found, ok := s.roleIn.Get(key, epoch, now); ok {
		return found, nil
	}
	all, err := s.Projects(ctx, c)
	if err != nil {
		return nil, err
	}
	found := map[ids.Project]bool{}
	for _, p := range all {
		if p.Role != "" {
			found[p.ID] = true
		}
	}
	s.roleIn.Put(key, found, epoch, now.Add(CachedFor))
	return found, nil
}

// Projects lists those of the caller's tenant by name.
func (s *Service) Projects(ctx context.Context, c Caller) ([]Project, error) {
	rows, err := s.DB.Query(ctx, selectProjects, c.Tenant.UUID, c.User.UUID)
	if err != nil {
		return nil, fmt.Errorf("listing projects: %w", err)
	}
	all, err := pgx.CollectRows(rows, scanProject)
	if err != nil {
		return nil, fmt.Errorf("listing projects: %w", err)
	}
	return all, nil
}

func scanProject(row pgx.CollectableRow) (p Project, err error) {
	err = row.Scan(&p.ID.UUID, &p.Tenant.UUID, &p.Name, &p.Role, &p.CreatedAt, &p.Description, &p.Version, &p.UpdatedAt)
	return p, err
}
