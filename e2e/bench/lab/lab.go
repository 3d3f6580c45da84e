// Package lab is what all measurements share: a private PostgreSQL, seeded fleets, child processes, load,
// pairs of measurements and rows of the result.
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

// Lab is what one run of the bench has: a folder, a database server, binaries.
type Lab struct {
	Options

	Dir     string
	Logger  *slog.Logger
	Cluster *pgcluster.Cluster
	fleets  map[int]string // URLs of seeded databases, by size
	binary  string
	// declared is the repository of all servers.
	Declared string
}

func NewLab(o Options) (*Lab, error) {
	// Not /tmp by a constant: where that is memory, TMPDIR names a disk.
	dir, err := os.MkdirTemp("", "gpuaas-bench-")
	if err != nil {
		return nil, fmt.Errorf("making the bench's folder: %w", err)
	}
	// The database's own user has to reach its folder below.
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

// Scaled is a size at the run's scale, at least least.
func (l *Lab) Scaled(n, least int) int { return max(int(float64(n)*l.Scale), least) }

// params of the server. What runs by itself and would hit one side of a pair only
// is off: autovacuum and checkpoints come between the measurements. The buffers
// hold a million objects, so that a slope is not that of the disk.
var params = map[string]string{
	"shared_buffers": "2GB", "max_wal_size": "16GB", "checkpoint_timeout": "1h", "autovacuum": "off",
	"work_mem": "64MB", "track_counts": "on", "log_line_prefix": logPrefix + "%a ", "max_connections": "100",
}

// Database makes a database with the present schema.
func (l *Lab) Database(ctx context.Context, name string) (string, error) {
	if l.Cluster == nil {
		var err error
		l.Cluster, err = pgcluster.Start(ctx, pgcluster.Config{Dir: filepath.Join(l.Dir, "postgres"), Durable: true, Params: params, Log: l.Logger})
		if err != nil {
			return "", err
		}
	}
	if err := l.Exec(ctx, l.Cluster.URL(), "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	url := strings.Replace(l.Cluster.URL(), "/postgres?", "/"+name+"?", 1)
	pool, err := pg.Open(ctx, url, "bench", 4)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	return url, migrations.Up(ctx, pool)
}

// Exec runs statements as whoever arranges a measurement: without time limits,
// without triggers, and without waiting for the disk.
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

// One reads a single value.
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

// Gpuaas builds the binary that ships, once.
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
