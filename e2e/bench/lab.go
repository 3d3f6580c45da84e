package main

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

// lab is what one run of the bench has: a folder, a database server, binaries.
type lab struct {
	options

	dir     string
	log     *slog.Logger
	cluster *pgcluster.Cluster
	fleets  map[int]string // URLs of seeded databases, by size
	binary  string
	// declared is the repository of all servers.
	declared string
}

func newLab(o options) (*lab, error) {
	// Not /tmp by a constant: where that is memory, TMPDIR names a disk.
	dir, err := os.MkdirTemp("", "gpuaas-bench-")
	if err != nil {
		return nil, fmt.Errorf("making the bench's folder: %w", err)
	}
	// The database's own user has to reach its folder below.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, fmt.Errorf("opening the bench's folder: %w", err)
	}
	return &lab{options: o, dir: dir, log: quiet(o.Log), fleets: map[int]string{}}, nil
}

func (l *lab) close() (err error) {
	if l.cluster != nil {
		err = l.cluster.Stop(pgcluster.Immediate)
	}
	return errors.Join(err, os.RemoveAll(l.dir))
}

func (l *lab) say(format string, args ...any) {
	fmt.Fprintf(l.Log, "bench: "+format+"\n", args...)
}

// scaled is a size at the run's scale, at least least.
func (l *lab) scaled(n, least int) int { return max(int(float64(n)*l.Scale), least) }

// params of the server. What runs by itself and would hit one side of a pair only
// is off: autovacuum and checkpoints come between the measurements. The buffers
// hold a million objects, so that a slope is not that of the disk.
var params = map[string]string{
	"shared_buffers": "2GB", "max_wal_size": "16GB", "checkpoint_timeout": "1h", "autovacuum": "off",
	"work_mem": "64MB", "track_counts": "on", "log_line_prefix": logPrefix + "%a ", "max_connections": "100",
}

// database makes a database with the present schema.
func (l *lab) database(ctx context.Context, name string) (string, error) {
	if l.cluster == nil {
		var err error
		l.cluster, err = pgcluster.Start(ctx, pgcluster.Config{Dir: filepath.Join(l.dir, "postgres"), Durable: true, Params: params, Log: l.log})
		if err != nil {
			return "", err
		}
	}
	if err := l.exec(ctx, l.cluster.URL(), "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	url := strings.Replace(l.cluster.URL(), "/postgres?", "/"+name+"?", 1)
	pool, err := pg.Open(ctx, url, "bench", 4)
	if err != nil {
		return "", err
	}
	defer pool.Close()
	return url, migrations.Up(ctx, pool)
}

// exec runs statements as whoever arranges a measurement: without time limits,
// without triggers, and without waiting for the disk.
func (l *lab) exec(ctx context.Context, url string, statements ...string) error {
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

// one reads a single value.
func one[T any](ctx context.Context, url, sql string, args ...any) (v T, err error) {
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

// gpuaas builds the binary that ships, once.
func (l *lab) gpuaas(ctx context.Context) (string, error) {
	if l.binary != "" {
		return l.binary, nil
	}
	path := filepath.Join(l.dir, "gpuaas")
	if err := l.build(ctx, path, "./cmd/gpuaas"); err != nil {
		return "", err
	}
	l.binary = path
	return path, nil
}
