package rest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity"
)

// shelf keeps things of one kind by their ids.
type shelf[K comparable, T any] map[K]T

func (s shelf[K, T]) get(id K) (T, error) {
	v, ok := s[id]
	if !ok {
		return v, errs.New(errs.NotFound, "no such thing")
	}
	return v, nil
}

func (s shelf[K, T]) drop(id K) (struct{}, error) {
	_, err := s.get(id)
	delete(s, id)
	return struct{}{}, err
}

// page is those after a place, in the order of their places.
func page[K comparable, T any](s shelf[K, T], place func(T) string, after string, limit int) []T {
	all := slices.SortedFunc(maps.Values(s), func(a, b T) int { return cmp.Compare(place(a), place(b)) })
	all = slices.DeleteFunc(all, func(v T) bool { return place(v) <= after })
	return all[:min(len(all), limit)]
}

// after is where a list of ids goes on; that of none is before all.
func after(id uuid.UUID) string {
	if id == uuid.Nil {
		return ""
	}
	return id.String()
}

// tenancy is the part of people that is managed through this door.
type tenancy struct {
	changes     int // that really had an effect
	tenants     shelf[ids.Tenant, identity.Tenant]
	projects    shelf[ids.Project, identity.Project]
	members     map[uuid.UUID]shelf[ids.User, identity.Member] // of tenants and projects
	invitations shelf[ids.Invitation, identity.Invitation]
	programs    shelf[ids.ServiceAccount, identity.ServiceAccount]
	credentials map[ids.ServiceAccount]shelf[ids.Credential, identity.Credential]
	apiKeys     shelf[ids.APIKey, identity.APIKey]
	users       shelf[ids.User, identity.User]
	starts      shelf[ids.Session, identity.SessionInfo]
}

func newTenancy(p *people) tenancy {
	t := tenancy{
		tenants:  shelf[ids.Tenant, identity.Tenant]{p.tenant: {ID: p.tenant, Name: "dev", Currency: "EUR", Version: 1, CreatedAt: t0}},
		projects: shelf[ids.Project, identity.Project]{},
		members:  map[uuid.UUID]shelf[ids.User, identity.Member]{p.tenant.UUID: {}}, invitations: shelf[ids.Invitation, identity.Invitation]{},
		programs: shelf[ids.ServiceAccount, identity.ServiceAccount]{}, credentials: map[ids.ServiceAccount]shelf[ids.Credential, identity.Credential]{},
		apiKeys: shelf[ids.APIKey, identity.APIKey]{}, users: shelf[ids.User, identity.User]{}, starts: shelf[ids.Session, identity.SessionInfo]{},
	}
	for name, id := range map[string]ids.Project{"default": p.project, "other": p.other} {
		t.projects[id] = identity.Project{ID: id, Tenant: p.tenant, Name: name, Role: "admin", CreatedAt: t0, Version: 1}
		t.members[id.UUID] = shelf[ids.User, identity.Member]{}
	}
	for name, id := range users {
		c := p.caller(name)
		t.users[id] = identity.User{
			ID: id, Email: c.Email, Name: name, Role: c.Role, RoleFrom: "platform", Issuer: "local", Tenant: c.Tenant, TenantName: "dev",
			TenantRole: c.TenantRole, Version: 1, CreatedAt: t0,
		}
		t.members[p.tenant.UUID][id] = identity.Member{User: id, Email: c.Email, Name: name, Role: c.TenantRole}
	}
	return t
}

// effectOf does what a use-case does in one transaction: the key, then the effect.
func effectOf[T any](p *people, ch identity.Change[T], effect func() (T, error)) (T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := ch.Key.Method + ch.Key.Route + ch.Key.Key
	if _, used := p.replies[at]; used && ch.Key.Key != "" {
		var none T
		return none, errs.New(errs.IdempotencyInFlight, "a request with this key is at work")
	}
	made, err := effect()
	if err != nil {
		return made, err
	}
	p.changes++
	if ch.Key.Key != "" {
		p.replies[at] = reply{ch.Answer(made), ch.Key.BodyHash}
	}
	return made, nil
}

// locked reads under the lock.
func locked[T any](p *people, read func() (T, error)) (T, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return read()
}

// unless refuses a copy that is out of date; zero means any.
func unless(version, is int64) error {
	if version != 0 && version != is {
		return errs.New(errs.VersionMismatch, "it was changed meanwhile")
	}
	return nil
}

func set[T any](to *T, v *T) {
	if v != nil {
		*to = *v
	}
}

func (p *people) Tenant(ctx context.Context, c identity.Caller) (identity.Tenant, error) {
	return p.TenantByID(ctx, c.Tenant)
}

func (p *people) TenantByID(_ context.Context, id ids.Tenant) (identity.Tenant, error) {
	return locked(p, func() (identity.Tenant, error) { return p.tenants.get(id) })
}

func (p *people) Tenants(_ context.Context, after string, limit int) ([]identity.Tenant, error) {
	return locked(p, func() ([]identity.Tenant, error) {
		return page(p.tenants, func(t identity.Tenant) string { return t.Name }, after, limit), nil
	})
}

func (p *people) CreateTenant(_ context.Context, ch identity.Change[identity.Tenant], name, currency string) (identity.Tenant, error) {
	return effectOf(p, ch, func() (identity.Tenant, error) {
		t := identity.Tenant{ID: ids.New[ids.Tenant](), Name: name, Currency: currency, Version: 1, CreatedAt: t0}
		p.tenants[t.ID], p.members[t.ID.UUID] = t, shelf[ids.User, identity.Member]{}
		return t, nil
	})
}

func (p *people) UpdateTenant(_ context.Context, ch identity.Change[identity.Tenant], version int64, name string) (identity.Tenant, error) {
	return effectOf(p, ch, func() (identity.Tenant, error) {
		t, err := p.tenants.get(ch.Caller.Tenant)
		if err = cmp.Or(err, unless(version, t.Version)); err != nil {
			return t, err
		}
		t.Name, t.Version = name, t.Version+1
		p.tenants[t.ID] = t
		return t, nil
	})
}

func (p *people) membersOf(of uuid.UUID, from ids.User, limit int) ([]identity.Member, error) {
	return locked(p, func() ([]identity.Member, error) {
		all, ok := p.members[of]
		if !ok {
			return nil, errs.New(errs.NotFound, "no such thing")
		}
		return page(all, func(m identity.Member) string { return m.User.String() }, after(from.UUID), limit), nil
	})
}

func (p *people) putMember(ch identity.Change[identity.Member], of uuid.UUID, user ids.User, role string) (identity.Member, error) {
	return effectOf(p, ch, func() (identity.Member, error) {
		u, err := p.users.get(user)
		all, ok := p.members[of]
		if err != nil || !ok {
			return identity.Member{}, cmp.Or(err, error(errs.New(errs.NotFound, "no such thing")))
		}
		all[user] = identity.Member{User: user, Email: u.Email, Name: u.Name, Role: role}
		return all[user], nil
	})
}

func (p *people) removeMember(ch identity.Change[struct{}], of uuid.UUID, user ids.User) error {
	_, err := effectOf(p, ch, func() (struct{}, error) { return p.members[of].drop(user) })
	return err
}

func (p *people) TenantMembers(_ context.Context, c identity.Caller, after ids.User, limit int) ([]identity.Member, error) {
	return p.membersOf(c.Tenant.UUID, after, limit)
}

func (p *people) PutTenantMember(_ context.Context, ch identity.Change[identity.Member], user ids.User, role string) (identity.Member, error) {
	return p.putMember(ch, ch.Caller.Tenant.UUID, user, role)
}

func (p *people) RemoveTenantMember(_ context.Context, ch identity.Change[struct{}], user ids.User) error {
	return p.removeMember(ch, ch.Caller.Tenant.UUID, user)
}

func (p *people) ProjectMembers(_ context.Context, _ identity.Caller, project ids.Project, after ids.User, limit int) ([]identity.Member, error) {
	return p.membersOf(project.UUID, after, limit)
}

func (p *people) PutProjectMember(_ context.Context, ch identity.Change[identity.Member], project ids.Project, user ids.User, role string) (identity.Member, error) {
	return p.putMember(ch, project.UUID, user, role)
}

func (p *people) RemoveProjectMember(_ context.Context, ch identity.Change[struct{}], project ids.Project, user ids.User) error {
	return p.removeMember(ch, project.UUID, user)
}

func (p *people) Invitations(_ context.Context, _ identity.Caller, from ids.Invitation, limit int) ([]identity.Invitation, error) {
	return locked(p, func() ([]identity.Invitation, error) {
		return page(p.invitations, func(i identity.Invitation) string { return i.ID.String() }, after(from.UUID), limit), nil
	})
}

func (p *people) Invite(_ context.Context, ch identity.Change[identity.Invitation], email, role string) (identity.Invitation, error) {
	return effectOf(p, ch, func() (identity.Invitation, error) {
		i := identity.Invitation{ID: ids.New[ids.Invitation](), Email: email, Role: role, CreatedAt: t0, ExpiresAt: t0.Add(7 * 24 * time.Hour)}
		p.invitations[i.ID] = i
		return i, nil
	})
}

func (p *people) RevokeInvitation(_ context.Context, ch identity.Change[struct{}], id ids.Invitation) error {
	_, err := effectOf(p, ch, func() (struct{}, error) { return p.invitations.drop(id) })
	return err
}

func (p *people) ProjectPage(_ context.Context, _ identity.Caller, after string, limit int) ([]identity.Project, error) {
	return locked(p, func() ([]identity.Project, error) {
		return page(p.projects, func(v identity.Project) string { return v.Name }, after, limit), nil
	})
}

// known is a project that was made, by its id.
func (p *people) known(asked string) ids.Project {
	id, _ := ids.Parse[ids.Project](asked)
	found, err := locked(p, func() (identity.Project, error) { return p.projects.get(id) })
	if err != nil {
		return ids.Project{}
	}
	return found.ID
}

func (p *people) ProjectOfAccount(ctx context.Context, c identity.Caller, id ids.ServiceAccount) (ids.Project, error) {
	a, err := p.ServiceAccountByID(ctx, c, id)
	return a.Project, err
}

func (p *people) ProjectByID(_ context.Context, _ identity.Caller, id ids.Project) (identity.Project, error) {
	return locked(p, func() (identity.Project, error) { return p.projects.get(id) })
}

func (p *people) CreateProject(_ context.Context, ch identity.Change[identity.Project], name, description string) (identity.Project, error) {
	return effectOf(p, ch, func() (identity.Project, error) {
		for _, have := range p.projects {
			if have.Name == name {
				return have, errs.New(errs.AlreadyExists, "there is a project %s", name)
			}
		}
		v := identity.Project{ID: ids.New[ids.Project](), Tenant: ch.Caller.Tenant, Name: name, Description: description, Role: "admin", Version: 1, CreatedAt: t0}
		p.projects[v.ID], p.members[v.ID.UUID] = v, shelf[ids.User, identity.Member]{}
		return v, nil
	})
}

func (p *people) UpdateProject(_ context.Context, ch identity.Change[identity.Project], id ids.Project, version int64, patch identity.ProjectPatch) (identity.Project, error) {
	return effectOf(p, ch, func() (identity.Project, error) {
		v, err := p.projects.get(id)
		if err = cmp.Or(err, unless(version, v.Version)); err != nil {
			return v, err
		}
		set(&v.Name, patch.Name)
		set(&v.Description, patch.Description)
		v.Version++
		p.projects[id] = v
		return v, nil
	})
}

func (r *rooms) CloseProject(_ context.Context, ch identity.Change[struct{}], id ids.Project, version int64) error {
	_, err := effectOf(r.people, ch, func() (struct{}, error) {
		v, err := r.people.projects.get(id)
		if err = cmp.Or(err, unless(version, v.Version)); err != nil {
			return struct{}{}, err
		}
		return r.people.projects.drop(id)
	})
	return err
}

func (r *rooms) CountActive(context.Context, ids.Tenant, ids.User) (int, error) {
	return 2, r.failure()
}

func (p *people) ServiceAccounts(_ context.Context, _ identity.Caller, _ ids.Project, after string, limit int) ([]identity.ServiceAccount, error) {
	return locked(p, func() ([]identity.ServiceAccount, error) {
		return page(p.programs, func(a identity.ServiceAccount) string { return a.Name }, after, limit), nil
	})
}

func (p *people) ServiceAccountByID(_ context.Context, _ identity.Caller, id ids.ServiceAccount) (identity.ServiceAccount, error) {
	return locked(p, func() (identity.ServiceAccount, error) { return p.programs.get(id) })
}

func (p *people) CreateServiceAccount(_ context.Context, ch identity.Change[identity.ServiceAccount], project ids.Project, n identity.NewServiceAccount) (identity.ServiceAccount, error) {
	return effectOf(p, ch, func() (identity.ServiceAccount, error) {
		a := identity.ServiceAccount{
			ID: ids.New[ids.ServiceAccount](), Tenant: ch.Caller.Tenant, Project: project, Name: n.Name, Description: n.Description, Scopes: n.Scopes,
			Version: 1, CreatedAt: t0,
		}
		p.programs[a.ID], p.credentials[a.ID] = a, shelf[ids.Credential, identity.Credential]{}
		return a, nil
	})
}

func (p *people) UpdateServiceAccount(_ context.Context, ch identity.Change[identity.ServiceAccount], id ids.ServiceAccount, version int64, patch identity.ServiceAccountPatch) (identity.ServiceAccount, error) {
	return effectOf(p, ch, func() (identity.ServiceAccount, error) {
		a, err := p.programs.get(id)
		if err = cmp.Or(err, unless(version, a.Version)); err != nil {
			return a, err
		}
		set(&a.Name, patch.Name)
		set(&a.Description, patch.Description)
		set(&a.Scopes, patch.Scopes)
		if patch.Disabled != nil && *patch.Disabled {
			a.DisabledAt = &t0
		}
		a.Version++
		p.programs[id] = a
		return a, nil
	})
}

func (p *people) DeleteServiceAccount(_ context.Context, ch identity.Change[struct{}], id ids.ServiceAccount, version int64) error {
	_, err := effectOf(p, ch, func() (struct{}, error) {
		a, err := p.programs.get(id)
		if err = cmp.Or(err, unless(version, a.Version)); err != nil {
			return struct{}{}, err
		}
		return p.programs.drop(id)
	})
	return err
}

func (p *people) Credentials(_ context.Context, _ identity.Caller, account ids.ServiceAccount, from ids.Credential, limit int) ([]identity.Credential, error) {
	return locked(p, func() ([]identity.Credential, error) {
		return page(p.credentials[account], func(c identity.Credential) string { return c.ID.String() }, after(from.UUID), limit), nil
	})
}

func (p *people) CreateCredential(_ context.Context, ch identity.Change[identity.Credential], account ids.ServiceAccount, ttl time.Duration) (identity.Credential, error) {
	return effectOf(p, ch, func() (identity.Credential, error) {
		c := identity.Credential{ID: ids.New[ids.Credential](), CreatedAt: t0}
		if ttl > 0 {
			end := t0.Add(ttl)
			c.ExpiresAt = &end
		}
		if _, err := p.programs.get(account); err != nil {
			return c, err
		}
		p.credentials[account][c.ID] = c
		c.Secret = "gps_" + c.ID.String()
		return c, nil
	})
}

func (p *people) RevokeCredential(_ context.Context, ch identity.Change[struct{}], account ids.ServiceAccount, id ids.Credential) error {
	_, err := effectOf(p, ch, func() (struct{}, error) { return p.credentials[account].drop(id) })
	return err
}

func (p *people) APIKeys(_ context.Context, _ identity.Caller, from ids.APIKey, limit int) ([]identity.APIKey, error) {
	return locked(p, func() ([]identity.APIKey, error) {
		return page(p.apiKeys, func(k identity.APIKey) string { return k.ID.String() }, after(from.UUID), limit), nil
	})
}

func (p *people) CreateAPIKey(_ context.Context, ch identity.Change[identity.APIKey], n identity.NewAPIKey) (identity.APIKey, error) {
	return effectOf(p, ch, func() (identity.APIKey, error) {
		k := identity.APIKey{ID: ids.New[ids.APIKey](), Name: n.Name, Scopes: n.Scopes, CreatedAt: t0}
		if n.TTL > 0 {
			end := t0.Add(n.TTL)
			k.ExpiresAt = &end
		}
		p.apiKeys[k.ID] = k
		k.Secret = "gpk_" + k.ID.String()
		return k, nil
	})
}

func (p *people) RevokeAPIKey(_ context.Context, ch identity.Change[struct{}], id ids.APIKey) error {
	_, err := effectOf(p, ch, func() (struct{}, error) { return p.apiKeys.drop(id) })
	return err
}

func (p *people) Users(_ context.Context, f identity.UserFilter) ([]identity.User, error) {
	return locked(p, func() ([]identity.User, error) {
		all := maps.Clone(p.users)
		maps.DeleteFunc(all, func(_ ids.User, u identity.User) bool {
			return f.Role != "" && u.Role != f.Role || f.Tenant != (ids.Tenant{}) && u.Tenant != f.Tenant
		})
		return page(all, func(u identity.User) string { return u.ID.String() }, after(f.After.UUID), f.Limit), nil
	})
}

func (p *people) UserByID(_ context.Context, id ids.User) (identity.User, error) {
	return locked(p, func() (identity.User, error) { return p.users.get(id) })
}

func (p *people) CreateUser(_ context.Context, ch identity.Change[identity.User], n identity.NewUser) (identity.User, error) {
	return effectOf(p, ch, func() (identity.User, error) {
		u := identity.User{
			ID: ids.New[ids.User](), Email: n.Email, Name: n.Name, Role: n.Role, RoleFrom: "platform", Issuer: "local",
			Tenant: n.Tenant, TenantRole: n.TenantRole, Version: 1, CreatedAt: t0,
		}
		p.users[u.ID] = u
		return u, nil
	})
}

func (p *people) UpdateUser(_ context.Context, ch identity.Change[identity.User], id ids.User, version int64, patch identity.UserPatch) (identity.User, error) {
	return effectOf(p, ch, func() (identity.User, error) {
		u, err := p.users.get(id)
		if err = cmp.Or(err, unless(version, u.Version)); err != nil {
			return u, err
		}
		set(&u.Name, patch.Name)
		set(&u.Role, patch.Role)
		if patch.Disabled != nil && *patch.Disabled {
			u.DisabledAt = &t0
		}
		u.Version++
		p.users[id] = u
		return u, nil
	})
}

func (p *people) UpdateMe(ctx context.Context, ch identity.Change[identity.User], version int64, name string) (identity.User, error) {
	return p.UpdateUser(ctx, ch, ch.Caller.User, version, identity.UserPatch{Name: &name})
}

func (p *people) Sessions(ctx context.Context, c identity.Caller, after ids.Session, limit int) ([]identity.SessionInfo, error) {
	return p.AllSessions(ctx, c.User, after, limit)
}

func (p *people) AllSessions(_ context.Context, user ids.User, from ids.Session, limit int) ([]identity.SessionInfo, error) {
	return locked(p, func() ([]identity.SessionInfo, error) {
		all := maps.Clone(p.starts)
		maps.DeleteFunc(all, func(_ ids.Session, i identity.SessionInfo) bool { return user != ids.User{} && i.User != user })
		return page(all, func(i identity.SessionInfo) string { return i.ID.String() }, after(from.UUID), limit), nil
	})
}

func (p *people) EndSessionByID(_ context.Context, ch identity.Change[struct{}], id ids.Session, anyone bool) error {
	_, err := effectOf(p, ch, func() (struct{}, error) {
		if i, err := p.starts.get(id); err != nil || i.User != ch.Caller.User && !anyone {
			return struct{}{}, errs.New(errs.NotFound, "no such thing")
		}
		return p.starts.drop(id)
	})
	return err
}

// start signs somebody in, so that there is a session to list and end.
func (p *people) start(user ids.User) ids.Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := identity.SessionInfo{ID: ids.New[ids.Session](), User: user, Kind: "browser", Issuer: "local", Address: "192.0.2.1", CreatedAt: t0, ExpiresAt: t0.Add(time.Hour)}
	p.starts[i.ID] = i
	return i.ID
}

// trail is an audit log of a few rows, and of as many more as a test wants.
type trail struct {
	rows   []audit.Record
	asked  []audit.Query
	fails  error // what the log answers when set
	breaks error // what an export ends with after its rows
}

func (l *trail) Search(_ context.Context, q audit.Query) ([]audit.Record, error) {
	l.asked = append(l.asked, q)
	from := 0
	if q.After != (audit.Place{}) {
		from = 1 + slices.IndexFunc(l.rows, func(r audit.Record) bool { return r.ID == q.After.ID })
	}
	return l.rows[from:min(len(l.rows), from+q.Limit)], l.fails
}

func (l *trail) Export(_ context.Context, _ audit.Query, each func(audit.Record) error) error {
	for _, r := range l.rows {
		if err := each(r); err != nil {
			return err
		}
	}
	return l.breaks
}

// records are rows of one tenant, the newest first.
func records(tenant ids.Tenant, n int) []audit.Record {
	rows := make([]audit.Record, n)
	for i := range rows {
		rows[i] = audit.Record{
			ID: uuid.Must(uuid.NewV7()), At: t0.Add(-time.Duration(i) * time.Second), Tenant: tenant, Actor: "user:1", Action: "project.create",
			Target: "gpuaas:project:1", CorrelationID: "c-1", After: json.RawMessage(`{"name":"vision"}`),
		}
	}
	return rows
}
