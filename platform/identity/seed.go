package identity

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
)

// Person is someone who may sign in.
type Person struct {
	ID          ids.User
	Email, Name string
	Role        string
	TenantName  string
	TenantRole  string
	// Key is a fresh personal key, only where one was asked for.
	Key string
}

// Seed is what a development installation starts with.
type Seed struct {
	Tenant               ids.Tenant
	Project              ids.Project
	Admin, Operator, Dev Person
}

// DevelopmentKey names the keys that SeedDevelopment makes; a fresh one ends
// those before it.
const DevelopmentKey = "development"

// SeedDevelopment makes sure of the tenant dev, its project default and three
// people. It may run at every start. With keys it also returns a fresh personal
// key of each.
func (s *Service) SeedDevelopment(ctx context.Context, tx pgx.Tx, keys bool) (Seed, error) {
	var seed Seed
	err := tx.QueryRow(ctx, seedTenant, uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()), "dev", "default").
		Scan(&seed.Tenant.UUID, &seed.Project.UUID)
	if err != nil {
		return Seed{}, fmt.Errorf("seeding the development tenant: %w", err)
	}
	seed.Admin = Person{Email: "admin@dev.localhost", Name: "Admin", Role: "admin", TenantRole: "viewer"}
	seed.Operator = Person{Email: "operator@dev.localhost", Name: "Operator", Role: "operator", TenantRole: "viewer"}
	seed.Dev = Person{Email: "dev@dev.localhost", Name: "Dev", Role: "user", TenantRole: "owner"}
	for _, p := range []*Person{&seed.Admin, &seed.Operator, &seed.Dev} {
		if err := s.seedPerson(ctx, tx, seed, p, keys); err != nil {
			return Seed{}, fmt.Errorf("seeding %s: %w", p.Email, err)
		}
	}
	return seed, nil
}

func (s *Service) seedPerson(ctx context.Context, tx pgx.Tx, seed Seed, p *Person, key bool) error {
	p.TenantName = "dev"
	err := tx.QueryRow(ctx, seedPerson, uuid.Must(uuid.NewV7()), p.Email, p.Name, p.Role,
		seed.Tenant.UUID, p.TenantRole, seed.Project.UUID).Scan(&p.ID.UUID)
	if err != nil || !key {
		return err
	}
	if err := s.RevokeKeys(ctx, tx, p.ID, DevelopmentKey); err != nil {
		return err
	}
	p.Key, err = s.NewKey(ctx, tx, p.ID, DevelopmentKey, 0)
	return err
}

// People lists everyone, for the sign-in page of a development installation.
func (s *Service) People(ctx context.Context) ([]Person, error) {
	rows, err := s.DB.Query(unscoped(ctx), selectPeople)
	if err != nil {
		return nil, fmt.Errorf("listing people: %w", err)
	}
	people, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (p Person, err error) {
		err = row.Scan(&p.ID.UUID, &p.Email, &p.Name, &p.Role, &p.TenantName, &p.TenantRole)
		return p, err
	})
	if err != nil {
		return nil, fmt.Errorf("listing people: %w", err)
	}
	return people, nil
}
