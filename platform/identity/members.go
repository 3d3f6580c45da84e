package identity

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity/revocation"
)

// Member is a person with their role in a tenant or a project.
type Member struct {
	User        ids.User
	Email, Name string
	Role        string
}

func scanMember(row pgx.CollectableRow) (m Member, err error) {
	err = row.Scan(&m.User, &m.Email, &m.Name, &m.Role)
	return m, err
}

// TenantMembers lists the people of the caller's tenant by id.
func (s *Service) TenantMembers(ctx context.Context, c Caller, after ids.User, limit int) ([]Member, error) {
	return pg.List(ctx, s.DB, "members", selectTenantMembers, scanMember, c.Tenant, after, limit)
}

// candidate is a user who may become a member. Tenant is the current tenant of the user.
type candidate struct {
	Member
	Tenant *uuid.UUID
}

// member finds a person of the tenant, by an empty role also one who has none.
func (s *Service) member(ctx context.Context, tenant ids.Tenant, user ids.User) (candidate, error) {
	found, err := pg.One(ctx, s.DB, "member", selectCandidate, func(row pgx.CollectableRow) (c candidate, err error) {
		err = row.Scan(&c.User, &c.Email, &c.Name, &c.Tenant, &c.Role)
		return c, err
	}, user)
	if err == nil && found.Tenant != nil && *found.Tenant != tenant.UUID {
		return candidate{}, noMember()
	}
	return found, err
}

// PutTenantMember gives a person of the tenant a role. Only the platform's
// administrators know people without a tenant, and may so bring them in.
func (s *Service) PutTenantMember(ctx context.Context, ch Change[Member], user ids.User, role string) (Member, error) {
	if err := checkRole("role", role, tenantRoles); err != nil {
		return Member{}, err
	}
	if role == "owner" {
		if err := s.Recent(ch.Caller); err != nil {
			return Member{}, err
		}
	}
	if ch.Caller.Role == "admin" {
		ctx = pg.WithScope(ctx, pg.Platform) // who is of no tenant is in no tenant's sight
	}
	tenant := ch.Caller.Tenant
	return ch.applyToRightsOf(ctx, s, func() (Member, func(*pgx.Batch), error) {
		have, err := s.member(ctx, tenant, user)
		switch {
		case err != nil:
			return Member{}, nil, err
		case have.Tenant == nil && ch.Caller.Role != "admin":
			return Member{}, nil, noMember()
		case have.Role == role:
			return have.Member, nil, nil
		}
		m := have.Member
		m.Role = role
		return m, func(b *pgx.Batch) {
			queueTenantRole(b, tenant, user, have.Role, role)
			b.Queue(putTenantMember, tenant, user, role).Exec(pg.OrElse(ErrRaced))
			s.Note(b, ch.Caller, "tenant.member.put", memberOf(tenant, ids.Project{}, user), before(have.Role), audit.Fields{"role": role})
		}, nil
	}, s.rekey(ctx, user.UUID))
}

// RemoveTenantMember removes a user from the tenant and all of its projects.
func (s *Service) RemoveTenantMember(ctx context.Context, ch Change[struct{}], user ids.User) error {
	tenant := ch.Caller.Tenant
	_, err := ch.applyToRightsOf(ctx, s, func() (none struct{}, _ func(*pgx.Batch), _ error) {
		have, err := s.member(ctx, tenant, user)
		if err == nil && have.Tenant == nil {
			err = noMember()
		}
		return none, func(b *pgx.Batch) {
			queueTenantRole(b, tenant, user, have.Role, "")
			b.Queue(deleteFromProjects, tenant, user)
			b.Queue(deleteTenantMember, tenant, user).Exec(pg.OrElse(ErrRaced))
			s.Note(b, ch.Caller, "tenant.member.remove", memberOf(tenant, ids.Project{}, user), before(have.Role), nil)
			s.NoteLost(b, ch.Caller, user, Tenant{ID: tenant}.ref(), revocation.AccessLost{Scope: "tenant", Reason: revocation.MembershipRemoved})
		}, err
	}, s.rekey(ctx, user.UUID))
	return err
}

// queueTenantRole locks the tenant and with it all memberships. It rejects a change that leaves the
// tenant without an enabled owner.
func queueTenantRole(b *pgx.Batch, tenant ids.Tenant, user ids.User, from, to string) {
	queueLockTenant(b, tenant)
	b.Queue(selectTenantRole, tenant, user).QueryRow(func(row pgx.Row) error {
		var role string
		var other bool
		if err := row.Scan(&role, &other); err != nil {
			return fmt.Errorf("reading a role: %w", err)
		}
		switch {
		case role != from:
			return ErrRaced
		case role == "owner" && to != "owner" && !other:
			return errs.New(errs.Conflict, "this is the last owner of the tenant").Try("give another member the role owner first")
		}
		return nil
	})
}

// ProjectMembers lists the people of a project by id.
func (s *Service) ProjectMembers(ctx context.Context, c Caller, project ids.Project, after ids.User, limit int) ([]Member, error) {
	if _, err := s.ProjectByID(ctx, c, project); err != nil {
		return nil, err
	}
	return pg.List(ctx, s.DB, "members", selectProjectMembers, scanMember, project, after, limit)
}

// PutProjectMember gives a member of the tenant a role in a project.
func (s *Service) PutProjectMember(ctx context.Context, ch Change[Member], project ids.Project, user ids.User, role string) (Member, error) {
	if err := checkRole("role", role, projectRoles); err != nil {
		return Member{}, err
	}
	tenant := ch.Caller.Tenant
	return ch.ApplyToRights(ctx, s, func() (Member, func(*pgx.Batch), error) {
		_, have, from, err := s.inProject(ctx, ch.Caller, project, user)
		if err != nil || from == role {
			have.Role = role
			return have, nil, err
		}
		have.Role = role
		return have, func(b *pgx.Batch) {
			queueProjectRole(b, tenant, project, user, from)
			b.Queue(putProjectMember, tenant, project, user, role).Exec(pg.OrElse(ErrRaced))
			s.Note(b, ch.Caller, "project.member.put", memberOf(tenant, project, user), before(from), audit.Fields{"role": role})
		}, nil
	})
}

// RemoveProjectMember removes a user from a project.
func (s *Service) RemoveProjectMember(ctx context.Context, ch Change[struct{}], project ids.Project, user ids.User) error {
	tenant := ch.Caller.Tenant
	_, err := ch.ApplyToRights(ctx, s, func() (none struct{}, _ func(*pgx.Batch), _ error) {
		p, _, from, err := s.inProject(ctx, ch.Caller, project, user)
		if err == nil && from == "" {
			err = noMember()
		}
		return none, func(b *pgx.Batch) {
			queueProjectRole(b, tenant, project, user, from)
			b.Queue(deleteProjectMember, project, user).Exec(pg.OrElse(ErrRaced))
			s.Note(b, ch.Caller, "project.member.remove", memberOf(tenant, project, user), before(from), nil)
			s.NoteLost(b, ch.Caller, user, p.ref(), revocation.AccessLost{Scope: "project", Reason: revocation.MembershipRemoved, Name: p.Name})
		}, err
	})
	return err
}

// inProject finds a member of the tenant and their role in a project that the
// caller administers; empty when they have none.
func (s *Service) inProject(ctx context.Context, c Caller, project ids.Project, user ids.User) (p Project, m Member, role string, err error) {
	if p, err = s.Administered(ctx, c, project); err != nil {
		return p, m, "", err
	}
	have, err := s.member(ctx, c.Tenant, user)
	if err == nil && have.Tenant == nil {
		err = noMember()
	}
	if err != nil {
		return p, m, "", err
	}
	role, err = pg.One(ctx, s.DB, "member", selectProjectRole, pgx.RowTo[string], project, user)
	return p, have.Member, role, err
}

// queueProjectRole locks the tenant, so that no user leaves it meanwhile, and the project, so that it is
// not closed.
func queueProjectRole(b *pgx.Batch, tenant ids.Tenant, project ids.Project, user ids.User, from string) {
	queueLockTenant(b, tenant)
	QueueLockProject(b, project)
	b.Queue(selectProjectRole, project, user).QueryRow(func(row pgx.Row) error {
		var role string
		if err := row.Scan(&role); err != nil {
			return fmt.Errorf("reading a role: %w", err)
		}
		if role != from {
			return ErrRaced
		}
		return nil
	})
}

func memberOf(tenant ids.Tenant, project ids.Project, user ids.User) Resource {
	return Resource{Tenant: tenant, Project: project, Kind: "member", ID: user.String()}
}

// before returns the previous role for an audit row, or nothing without one.
func before(role string) audit.Fields {
	if role == "" {
		return nil
	}
	return audit.Fields{"role": role}
}

// noMember is for a user who does not exist and for a user of another tenant alike.
func noMember() error { return errs.New(errs.NotFound, "no such member") }

// Roles are the roles of an audience: a user belongs to it by any of them, and User by being a member of the tenant.
type Roles struct {
	Project, Tenant, Platform []string
	User                      ids.User
}

// UsersWithRoles returns the users who have one of the roles in a project, in a tenant, or on the platform, and
// are not disabled.
func UsersWithRoles(ctx context.Context, q pg.Queryer, tenant ids.Tenant, project ids.Project, r Roles) ([]uuid.UUID, error) {
	return pg.List(ctx, q, "users with roles", selectWithRoles, pgx.RowTo[uuid.UUID], tenant.UUID, project.UUID, r.Tenant, r.Project, r.Platform, r.User.UUID)
}
