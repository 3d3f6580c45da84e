// Package pg opens the database the same way everywhere.
package pg

import (
	"context"
	"fmt"
	"maps"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/telemetry"
)

// DB begins transactions: a pool, or in tests a transaction that is rolled back.
type DB interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// Queryer runs statements: a pool, a connection or a transaction.
type Queryer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// Pool is the part of a connection pool that services use: it begins transactions and runs queries.
type Pool interface {
	DB
	Queryer
}

var _ Pool = (*pgxpool.Pool)(nil)

// Limits of every session. A statement that outlasts them is a bug or an attack,
// and an idle transaction stops vacuum for everyone.
const (
	statementTimeout = "30s"
	lockTimeout      = "10s"
	idleInTxTimeout  = "30s"
)

// Open connects a pool of at most size connections as the URL's own user. pg_stat_activity displays
// the application name, which is the server role.
func Open(ctx context.Context, url, application string, size int32) (*pgxpool.Pool, error) {
	return OpenAs(ctx, url, "", application, size)
}

// OpenAs is Open for a database role. Where the URL names another user, each
// session becomes the role as it begins: that user must be a member of it.
func OpenAs(ctx context.Context, url, role, application string, size int32) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("reading the database URL: %w", err)
	}
	if role != "" && role != cfg.ConnConfig.User {
		cfg.ConnConfig.RuntimeParams["role"] = role
	}
	cfg.MaxConns = size
	if telemetry.Wanted() {
		cfg.ConnConfig.Tracer = otelpgx.NewTracer()
	}
	cfg.AfterConnect = speakUUID
	maps.Copy(cfg.ConnConfig.RuntimeParams, map[string]string{
		"application_name":                    application,
		"timezone":                            "UTC",
		"statement_timeout":                   statementTimeout,
		"lock_timeout":                        lockTimeout,
		"idle_in_transaction_session_timeout": idleInTxTimeout,
	})
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("opening database: %w", err)
	}
	return pool, nil
}
