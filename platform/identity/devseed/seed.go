// Package devseed contains the tenants, projects and users of a development installation. The seed of the
// database, the development issuer and the Keycloak realm use the same table.
package devseed

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/audit"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
)

// Person is a user who may sign in.
type Person struct {
	ID          ids.User
	Email, Name string
	Role        string // on the platform
	Tenant      ids.Tenant
	TenantName  string
	TenantRole  string
	// Projects are roles in the tenant's projects by their names, of seeded people.
	Projects map[string]string
	// Key is a new API key, if keys were requested.
	Key string
}

// ProviderRoles returns the roles that a provider gives the person, by their names in a realm of ours.
func (p Person) ProviderRoles() []string {
	if p.Role == "user" {
		return nil
	}
	return []string{ProviderRole(p.Role)}
}

// ProviderRole returns the name of a platform role in a realm of ours.
func ProviderRole(role string) string { return "gpuaas-" + strings.ReplaceAll(role, "_", "-") }

// The clients of a development installation at its provider, and the audience of its tokens.
const (
	Client    = "gpuaas"
	CLIClient = "gpuaas-cli"
	Audience  = "gpuaas-api"
)

// projectsOf are the tenants of a development installation, each with its projects.
var projectsOf = map[string][]string{
	"dev":  {"default", "lab"},
	"acme": {"default"},
}

// People returns the users of a development installation: at least one of each role, in two
// tenants. The seed, the development issuer and the Keycloak realm contain the same users.
func People() []Person {
	people := []Person{
		person("dev", "admin", Person{Role: "admin", TenantRole: "viewer", Projects: inDefault("viewer")}),
		person("dev", "operator", Person{Role: "operator", TenantRole: "viewer", Projects: inDefault("viewer")}),
		person("dev", "dev", Person{TenantRole: "owner", Projects: map[string]string{"default": "admin", "lab": "admin"}}),
		person("dev", "biller", Person{Role: "billing_operator", TenantRole: "viewer", Projects: inDefault("viewer")}),
		person("acme", "owner", Person{TenantRole: "owner", Projects: inDefault("admin")}),
	}
	for _, tenant := range []string{"dev", "acme"} {
		people = append(
			people,
			person(tenant, "billing", Person{TenantRole: "billing"}),
			person(tenant, "member", Person{TenantRole: "member"}),
			person(tenant, "viewer", Person{TenantRole: "viewer"}),
			person(tenant, "lead", Person{TenantRole: "member", Projects: inDefault("admin")}),
			person(tenant, "builder", Person{TenantRole: "member", Projects: inDefault("member")}),
			person(tenant, "reader", Person{TenantRole: "member", Projects: inDefault("viewer")}),
		)
	}
	return people
}

func person(tenant, name string, p Person) Person {
	p.TenantName, p.Email, p.Name = tenant, name+"@"+tenant+".localhost", strings.ToUpper(name[:1])+name[1:]
	if p.Role == "" {
		p.Role = "user"
	}
	return p
}

func inDefault(role string) map[string]string { return map[string]string{"default": role} }

// Seed contains the initial objects of a development installation.
type Seed struct {
	Tenant               ids.Tenant  // dev
	Project              ids.Project // default of dev
	Admin, Operator, Dev Person
	People               []Person               // all of People, these three included
	Projects             map[string]ids.Project // by "tenant/project"
}

// KeyName names the keys that Write makes; a fresh one ends those before it.
const KeyName = "development"

// Write creates missing development tenants, projects and users. It may run at every start: it
// changes no existing object and leaves memberships unchanged that a user has changed since. Afterwards
// users are found by their e-mail again, because the issuer may have changed since they signed in. With
// a service of keys, it also returns new API keys of admin, operator and dev.
func Write(ctx context.Context, tx pgx.Tx, with *keys.Service) (Seed, error) {
	seed := Seed{People: People(), Projects: map[string]ids.Project{}}
	changed, err := seed.write(ctx, tx)
	if err != nil {
		return Seed{}, fmt.Errorf("seeding development: %w", err)
	}
	if err := seed.read(ctx, tx); err != nil {
		return Seed{}, fmt.Errorf("reading the development seed: %w", err)
	}
	for _, p := range []*Person{&seed.Admin, &seed.Operator, &seed.Dev} {
		if with == nil {
			break
		}
		if err := with.RevokeKeys(ctx, tx, p.ID, KeyName); err != nil {
			return Seed{}, err
		}
		if p.Key, err = with.NewKey(ctx, tx, p.ID, KeyName, 0); err != nil {
			return Seed{}, err
		}
	}
	if !changed && with == nil {
		return seed, nil
	}
	b := &pgx.Batch{}
	audit.Queue(b, audit.Entry{Tenant: seed.Tenant, By: audit.By{Actor: "system:up"}, Action: "development.seed", Target: seed.Tenant.String()})
	return seed, tx.SendBatch(ctx, b).Close()
}

// write reports whether it has changed anything.
func (seed *Seed) write(ctx context.Context, tx pgx.Tx) (changed bool, err error) {
	b := &pgx.Batch{}
	count := func(tag pgconn.CommandTag) error {
		changed = changed || tag.RowsAffected() > 0
		return nil
	}
	tenants := slices.Sorted(maps.Keys(projectsOf))
	b.Queue(seedTenants, fresh(len(tenants)), tenants).Exec(count)
	var in, projects []string
	for _, tenant := range tenants {
		for _, project := range projectsOf[tenant] {
			in, projects = append(in, tenant), append(projects, project)
		}
	}
	b.Queue(seedProjects, fresh(len(projects)), in, projects).Exec(count)

	var emails, names, roles, at, tenantRoles []string
	var member, memberAt, memberOf, memberAs []string
	for _, p := range seed.People {
		emails, names, roles = append(emails, p.Email), append(names, p.Name), append(roles, p.Role)
		at, tenantRoles = append(at, p.TenantName), append(tenantRoles, p.TenantRole)
		for _, project := range slices.Sorted(maps.Keys(p.Projects)) {
			member, memberAt = append(member, p.Email), append(memberAt, p.TenantName)
			memberOf, memberAs = append(memberOf, project), append(memberAs, p.Projects[project])
		}
	}
	b.Queue(seedPeople, fresh(len(emails)), emails, names, roles).Exec(count)
	b.Queue(seedMemberships, emails, at, tenantRoles).Exec(count)
	b.Queue(seedProjectMemberships, member, memberAt, memberOf, memberAs).Exec(count)
	return changed, tx.SendBatch(ctx, b).Close()
}

func fresh(n int) (made []uuid.UUID) {
	for range n {
		made = append(made, uuid.Must(uuid.NewV7()))
	}
	return made
}

func (seed *Seed) read(ctx context.Context, tx pgx.Tx) error {
	var tenant, project, user uuid.UUID
	var tenantName, projectName, email string
	tenants, users := map[string]ids.Tenant{}, map[string]ids.User{}
	b := &pgx.Batch{}
	b.Queue(selectSeedProjects, slices.Collect(maps.Keys(projectsOf))).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&tenant, &tenantName, &project, &projectName}, func() error {
			tenants[tenantName] = ids.From[ids.Tenant](tenant)
			seed.Projects[tenantName+"/"+projectName] = ids.From[ids.Project](project)
			return nil
		})
		return err
	})
	var emails []string
	for _, p := range seed.People {
		emails = append(emails, p.Email)
	}
	b.Queue(selectSeedPeople, emails).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&user, &email}, func() error {
			users[email] = ids.From[ids.User](user)
			return nil
		})
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	seed.Tenant, seed.Project = tenants["dev"], seed.Projects["dev/default"]
	named := map[string]*Person{"admin@dev.localhost": &seed.Admin, "operator@dev.localhost": &seed.Operator, "dev@dev.localhost": &seed.Dev}
	for i := range seed.People {
		p := &seed.People[i]
		p.ID, p.Tenant = users[p.Email], tenants[p.TenantName]
		if one := named[p.Email]; one != nil {
			*one = *p
		}
	}
	return nil
}
