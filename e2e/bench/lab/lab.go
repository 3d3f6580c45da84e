// Package lab contains the code that all measurements share: a private PostgreSQL, seeded fleets,
// child processes, load, pairs of measurements and rows of the result.
package lab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/migrations"
)

// Lab contains the resources of one run of the bench: a folder, a database server and binaries.
type Lab struct {
	Options

	Dir     string
	Logger  *slog.Logger
	Cluster *pgcluster.Cluster
	fleets  map[int]string // URLs of seeded databases, by size
	// migrated is true once the template exists.
	migrated bool
	binary   string
	// Declared is the path of the Git repository that all servers use.
	Declared string
}

func NewLab(o Options) (*Lab, error) {
	// TMPDIR selects the folder. A constant /tmp could be in memory, where the durable database
	// must not be.
	dir, err := os.MkdirTemp("", "gpuaas-bench-")
	if err != nil {
		return nil, fmt.Errorf("making the bench's folder: %w", err)
	}
	// PostgreSQL may run as another user, which needs access to its folder below this one.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("opening the bench's folder: %w", err)
	}
	return &Lab{Options: o, Dir: dir, Logger: Quiet(o.Log), fleets: map[int]string{}}, nil
}

func (l *Lab) Close() (err error) {
	if l.Cluster != nil {
		err = l.Cluster.Stop(pgcluster.Immediate)
	}
	return errors.Join(err, os.RemoveAll(l.Dir))
}

func (l *Lab) Say(format string, args ...any) {
	fmt.Fprintf(l.Log, "bench: "+format+"\n", args...)
}

// Scaled returns n at the scale of the run, and at least least.
func (l *Lab) Scaled(n, least int) int { return max(int(float64(n)*l.Scale), least) }

// params are the settings of PostgreSQL. Autovacuum and checkpoints run between the measurements,
// because a background run would slow only one side of a pair. The shared buffers are large enough
// for a million objects, so that a slope does not measure the disk.
var params = map[string]string{
	"shared_buffers": "2GB", "max_wal_size": "16GB", "checkpoint_timeout": "1h", "autovacuum": "off",
	"work_mem": "64MB", "track_counts": "on", "log_line_prefix": logPrefix + "%p %a ", "max_connections": "100",
}

// Database creates a database with the current schema.
func (l *Lab) Database(ctx context.Context, name string) (string, error) {
	if l.Cluster == nil {
		var err error
		l.Cluster, err = pgcluster.Start(ctx, pgcluster.Config{Dir: filepath.Join(l.Dir, "postgres"), Durable: true, Params: params, Log: l.Logger})
		if err != nil {
			return "", err
		}
	}
	if !l.migrated {
		if err := l.migrate(ctx); err != nil {
			return "", err
		}
		l.migrated = true
	}
	return l.urlOf(name), l.Exec(ctx, l.Cluster.URL(), "CREATE DATABASE "+name+" TEMPLATE "+template)
}

// template is the database with the current schema that the others copy.
const template = "bench_template"

func (l *Lab) urlOf(database string) string {
	return strings.Replace(l.Cluster.URL(), "/postgres?", "/"+database+"?", 1)
}

func (l *Lab) migrate(ctx context.Context) error {
	if err := l.Exec(ctx, l.Cluster.URL(), "CREATE DATABASE "+template); err != nil {
		return err
	}
	pool, err := pg.Open(ctx, l.urlOf(template), "bench", 4)
	if err != nil {
		return err
	}
	defer pool.Close()
	return migrations.Up(ctx, pool)
}

// Exec runs statements that prepare a measurement. They have no time limits, fire no triggers and
// do not wait for the disk.
func (l *Lab) Exec(ctx context.Context, url string, statements ...string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	for _, sql := range append([]string{`SET session_replication_role = replica`, `SET synchronous_commit = off`}, statements...) {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%.60s …: %w", strings.TrimSpace(sql), err)
		}
	}
	return nil
}

// One returns the single value that a query selects.
func One[T any](ctx context.Context, url, sql string, args ...any) (v T, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return v, fmt.Errorf("connecting: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := conn.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
		return v, fmt.Errorf("%.60s …: %w", sql, err)
	}
	return v, nil
}

// Gpuaas builds the release binary once and returns its path.
func (l *Lab) Gpuaas(ctx context.Context) (string, error) {
	if l.binary != "" {
		return l.binary, nil
	}
	path := filepath.Join(l.Dir, "gpuaas")
	if err := l.Build(ctx, path, "./cmd/gpuaas"); err != nil {
		return "", err
	}
	l.binary = path
	return path, nil
}
