package client

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/restore"
)

// ReadStored reads the output of an earlier run. It rejects a file without heads, which would
// verify nothing and report success.
func ReadStored(path, command string, into any, heads func() bool) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return errs.Invalid("--heads", "cannot be read").Because(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return errs.Invalid("--heads", "%s is not the output of %s", path, command).Because(err)
	}
	if !heads() {
		return errs.Invalid("--heads", "%s names no head", path).Try("%s prints them", command)
	}
	return nil
}

// Database opens the database of DATABASE_URL, or of gpuaas up on the local machine. PostgreSQL
// lists the connections under the name as.
func Database(ctx context.Context, a *output.Console, as string) (*pgxpool.Pool, error) {
	const connections = 4
	url, err := DatabaseURL(a)
	if err != nil {
		return nil, err
	}
	db, err := pg.Open(ctx, url, as, connections)
	if err != nil {
		return nil, err
	}
	if err := db.Ping(ctx); err != nil {
		db.Close()
		return nil, errs.New(errs.Unavailable, "the database is not reachable").Try("is the server or gpuaas up running?").Because(err)
	}
	return db, nil
}

// DatabaseToChange is Database for a command that changes something: it is rejected while a restore is not confirmed.
func DatabaseToChange(ctx context.Context, a *output.Console, as string) (*pgxpool.Pool, error) {
	db, err := Database(ctx, a, as)
	if err != nil {
		return nil, err
	}
	gate := restore.Gate{DB: db}
	if err = gate.Refresh(ctx); err == nil {
		err = gate.Err()
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// DatabaseURL returns the URL that Database opens.
func DatabaseURL(a *output.Console) (string, error) {
	if url, err := secret(a, "DATABASE_URL"); url != "" || err != nil {
		return url, err
	}
	s, err := ReadSettings(a)
	if err != nil {
		return "", err
	}
	if s.DataDir == "" {
		return "", errs.New(errs.NotFound, "no database is known: DATABASE_URL is not set, and the profile names no data directory").
			Try("set DATABASE_URL, or use the profile of gpuaas up on the local machine")
	}
	return pgcluster.URLOf(filepath.Join(s.DataDir, "postgres"))
}

// AuditArchive returns the folder of the archive of the audit log, or "": that of the environment, or of gpuaas up on the
// local machine.
func AuditArchive(a *output.Console) string {
	if folder := a.Env("GPUAAS_AUDIT_ARCHIVE"); folder != "" {
		return folder
	}
	if s, err := ReadSettings(a); err == nil && s.DataDir != "" && a.Env("DATABASE_URL") == "" {
		return filepath.Join(s.DataDir, "audit")
	}
	return ""
}

func TenantNames(ctx context.Context, db pg.Pool) (map[ids.Tenant]string, error) {
	const page = 1000
	names := map[ids.Tenant]string{{}: "(platform)"}
	who := &identity.Service{DB: db}
	for after := ""; ; {
		list, err := who.Tenants(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for _, t := range list {
			names[t.ID], after = t.Name, t.Name
		}
		if len(list) < page {
			return names, nil
		}
	}
}

// TenantNamed also accepts an unknown id: rows may exist after their tenant was deleted.
func TenantNamed(names map[ids.Tenant]string, asked string) (ids.Tenant, error) {
	if asked == "" {
		return ids.Tenant{}, nil
	}
	for id, name := range names {
		if name == asked && id != (ids.Tenant{}) {
			return id, nil
		}
	}
	id, err := ids.Parse[ids.Tenant](asked)
	if err != nil {
		return id, errs.New(errs.NotFound, "tenant %q does not exist", asked).Try("omit --tenant to verify all tenants")
	}
	return id, nil
}
