package migrations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const (
	rolesFile  = "roles.sql"
	grantsFile = "grants.sql"
)

// makeRoles makes the roles that are missing. They are one for all databases of
// a cluster, and no lock reaches over them.
func makeRoles(ctx context.Context, pool *pgxpool.Pool) error {
	text, err := files.ReadFile(rolesFile)
	if err != nil {
		return fmt.Errorf("reading %s: %w", rolesFile, err)
	}
	err = again(ctx, func() error {
		_, err := pool.Exec(ctx, string(text))
		return err
	})
	if err != nil {
		return fmt.Errorf("making the database roles: %w", err)
	}
	return nil
}

const (
	lockGrants  = `SELECT pg_advisory_xact_lock(hashtextextended('migrations.grants', 0))`
	readGrants  = `SELECT coalesce((SELECT hash FROM applied_grants), '')`
	writeGrants = `INSERT INTO applied_grants (hash) VALUES ($1) ON CONFLICT (sole) DO UPDATE SET hash = excluded.hash`
)

// grant applies the rights where another release's are in force. Two who grant at
// once fail each other, so one waits.
func grant(ctx context.Context, pool *pgxpool.Pool) error {
	text, err := files.ReadFile(grantsFile)
	if err != nil {
		return fmt.Errorf("reading %s: %w", grantsFile, err)
	}
	want, err := grantsHash()
	if err != nil {
		return err
	}
	err = again(ctx, func() error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lockGrants); err != nil {
				return err
			}
			var have string
			if err := tx.QueryRow(ctx, readGrants).Scan(&have); err != nil || have == want {
				return err
			}
			if _, err := tx.Exec(ctx, string(text)); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, writeGrants, want)
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("granting the roles their rights: %w", err)
	}
	return nil
}

// grantsHash changes with every migration too: a table that was created again has
// lost its rights.
func grantsHash() (string, error) {
	ours, err := Hash()
	if err != nil {
		return "", err
	}
	river, err := rivermigrate.New(riverpgxv5.New(nil), nil)
	if err != nil {
		return "", fmt.Errorf("reading River's migrations: %w", err)
	}
	return fmt.Sprintf("%s-river%d", ours, len(river.AllVersions())), nil
}

// tries are enough for as many processes as start at once.
const (
	tries = 20
	pause = 50 * time.Millisecond
)

// again repeats what failed because another process changed the same row of the
// catalogue: PostgreSQL has no code of its own for that.
func again(ctx context.Context, do func() error) (err error) {
	for range tries {
		var refused *pgconn.PgError
		if err = do(); !errors.As(err, &refused) || refused.Code != "XX000" && refused.Code != "23505" {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
	return err
}
