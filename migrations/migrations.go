// Package migrations is the one ordered history of the schema, and the rights to
// it. Every step is safe while the previous release still runs.
package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/gpuaas/gpuaas/internal/errs"
)

//go:embed *.sql
var files embed.FS

// RiverSchema is the schema of River's tables, which are separate from ours.
const RiverSchema = "river"

// errNewerSchema means that a newer release has already migrated this database.
var errNewerSchema = errors.New("the database schema is newer than this binary; run the newer release")

// Up brings roles, schema, River's schema and rights to this binary's version.
// Several replicas may call it at once; one does the work. The pool is that of
// the owner of the tables, and of no server role.
func Up(ctx context.Context, pool *pgxpool.Pool) error {
	if err := makeRoles(ctx, pool); err != nil {
		return err
	}
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	err := locked(ctx, db, func() error {
		if err := upOurs(ctx, db); err != nil {
			return err
		}
		if err := upRiver(ctx, pool); err != nil {
			return err
		}
		if _, err := pool.Exec(ctx, `SELECT continue_positions()`); err != nil {
			return fmt.Errorf("continuing the positions of events and audit rows: %w", err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return grant(ctx, pool)
}

// Current returns an error unless the schema is that of this binary. It needs no rights of the owner.
func Current(ctx context.Context, pool *pgxpool.Pool) error {
	var have, want int64
	if err := pool.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&have); err != nil {
		return fmt.Errorf("reading the schema version: %w", err)
	}
	entries, err := files.ReadDir(".")
	if err != nil {
		return fmt.Errorf("reading migrations: %w", err)
	}
	for _, e := range entries {
		if n, err := goose.NumericComponent(e.Name()); err == nil {
			want = max(want, n)
		}
	}
	switch {
	case have > want:
		return errNewerSchema
	case have < want:
		return errs.New(errs.Unavailable, "the database schema %d is older than this binary, which needs %d", have, want).
			Try("start a server with DATABASE_URL first: it migrates as the owner of the schema")
	}
	return nil
}

// lockPeriod and lockTries are the waiting time of a replica: longer than all migrations need.
const lockPeriod, lockTries = 1, 300

// locked calls migrate while no other replica migrates this database. River's migrator has no lock of
// its own: two replicas would apply one step twice, and the second would fail.
func locked(ctx context.Context, db *sql.DB, migrate func() error) (err error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(lockPeriod, lockTries))
	if err != nil {
		return fmt.Errorf("making the migration lock: %w", err)
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connecting for the migration lock: %w", err)
	}
	defer func() { _ = conn.Close() }()
	if err := locker.SessionLock(ctx, conn); err != nil {
		return fmt.Errorf("waiting for the migration of another replica: %w", err)
	}
	defer func() { err = errors.Join(err, locker.SessionUnlock(context.WithoutCancel(ctx), conn)) }()
	return migrate()
}

func upOurs(ctx context.Context, db *sql.DB) error {
	steps, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithExcludeNames([]string{rolesFile, grantsFile}))
	if err != nil {
		return fmt.Errorf("reading migrations: %w", err)
	}
	have, err := steps.GetDBVersion(ctx)
	if err != nil {
		return fmt.Errorf("reading the schema version: %w", err)
	}
	if latest := steps.ListSources()[len(steps.ListSources())-1].Version; have > latest {
		return errNewerSchema
	}
	if _, err := steps.Up(ctx); err != nil {
		return fmt.Errorf("migrating: %w", err)
	}
	return nil
}

func upRiver(ctx context.Context, pool *pgxpool.Pool) error {
	if _, err := pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+RiverSchema); err != nil {
		return fmt.Errorf("making schema %s: %w", RiverSchema, err)
	}
	steps, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: RiverSchema})
	if err != nil {
		return fmt.Errorf("reading River's migrations: %w", err)
	}
	if _, err := steps.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrating River: %w", err)
	}
	return nil
}

// Hash names this set of migrations and rights, for caches of a migrated template.
func Hash() (string, error) {
	return hashOf(files)
}
