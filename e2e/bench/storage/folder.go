package storage

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/product/storage"
	"github.com/gpuaas/gpuaas/product/storage/listing"
	"github.com/gpuaas/gpuaas/product/storage/objectpath"
)

// The entries of the folder of B3, and the reads of each run.
const (
	folderFiles   = 1_000_000
	folderFolders = 500_000
	pages         = 200
	pageSize      = 100
)

// seedFolder inserts a folder named big with files and folders, and what the statements of the API would have counted. The indexes
// are made afterwards, because the insertion of a million rows into five of them lasts minutes.
var seedFolder = []string{
	`CREATE TABLE bench_indexes AS SELECT indexname::text, indexdef FROM pg_indexes WHERE tablename = 'storage_objects' AND indexname <> 'storage_objects_pkey'`,
	`DO $$ DECLARE d text; BEGIN FOR d IN SELECT indexname FROM bench_indexes LOOP EXECUTE format('DROP INDEX %I', d); END LOOP; END $$`,
	`INSERT INTO storage_usage (scope_id, org_id, project_id, objects) VALUES ('PROJECT', 'TENANT', 'PROJECT', FILES + FOLDERS + 2), ('TENANT', 'TENANT', NULL, FILES + FOLDERS + 2)`,
	`INSERT INTO storage_objects (id, org_id, project_id, parent_id, name, folded, type, deepest, longest) VALUES
		('PROJECT', 'TENANT', 'PROJECT', NULL, '', '', 'folder', 2, 20), ('FOLDER', 'TENANT', 'PROJECT', 'PROJECT', 'big', 'big', 'folder', 1, 10)`,
	// Ids grow with time, as those of the API do.
	`INSERT INTO storage_objects (id, org_id, project_id, parent_id, name, folded, type, object_key)
		SELECT id, 'TENANT', 'PROJECT', 'FOLDER', n, n, 'file', id
		FROM (SELECT ('01990000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid id, 'f' || lpad(i::text, 8, '0') n FROM generate_series(1, FILES) i) s`,
	`INSERT INTO storage_objects (id, org_id, project_id, parent_id, name, folded, type)
		SELECT ('01990000-0000-7000-9000-' || lpad(to_hex(i), 12, '0'))::uuid, 'TENANT', 'PROJECT', 'FOLDER', n, n, 'folder'
		FROM (SELECT i, 'f' || lpad(i::text, 8, '0') || 'd' n FROM generate_series(1, FOLDERS) i) s`,
	`DO $$ DECLARE d text; BEGIN SET LOCAL maintenance_work_mem = '512MB'; FOR d IN SELECT indexdef FROM bench_indexes LOOP EXECUTE d; END LOOP; END $$`,
	`DROP TABLE bench_indexes`,
	`VACUUM ANALYZE storage_objects`,
}

const seedProject = `INSERT INTO tenants (id, name) VALUES ('%[1]s', '%[1]s'); INSERT INTO projects (id, org_id, name) VALUES ('%[2]s', '%[1]s', 'big')`

// Folder compares a page near the end of a folder with its first page, and counts the rows that a rename of the folder
// changes.
func Folder(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	url, err := l.Database(ctx, "b3")
	if err != nil {
		return nil, err
	}
	n := l.Scaled(folderFiles, 2*pageSize)
	at := storage.Scope{Tenant: ids.New[ids.Tenant](), Project: ids.New[ids.Project]()}
	if err := l.Exec(ctx, url, fmt.Sprintf(seedProject, at.Tenant, at.Project)); err != nil {
		return nil, err
	}
	l.Say("seeding a folder of %d files", n)
	fill := strings.NewReplacer(
		"'TENANT'", "'"+at.Tenant.String()+"'", "'PROJECT'", "'"+at.Project.String()+"'", "'FOLDER'", "'"+uuid.NewString()+"'",
		"FOLDERS", strconv.Itoa(n*folderFolders/folderFiles), "FILES", strconv.Itoa(n),
	)
	statements := make([]string, len(seedFolder))
	for i, sql := range seedFolder {
		statements[i] = fill.Replace(sql)
	}
	if err := l.Exec(ctx, url, statements...); err != nil {
		return nil, err
	}
	pool, err := lab.OpenAs(ctx, url, "api", 1)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	v, err := lab.Services(pg.Scoped{Pool: pool}, &hint.Bus{}, l.Logger)
	if err != nil {
		return nil, err
	}
	ctx = pg.WithScope(ctx, pg.Scope{Tenant: at.Tenant.String()})
	read := func(after string) lab.Side {
		q := listing.Query{Folder: objectpath.Path{"big"}, After: listing.Position{Path: after}, Limit: pageSize}
		return func(ctx context.Context) (time.Duration, error) {
			for range l.Scaled(pages, 10) {
				page, err := listing.Service{Service: v.Storage}.List(ctx, at, q)
				if err == nil && len(page) != pageSize {
					err = fmt.Errorf("a page has %d entries", len(page))
				}
				if err != nil {
					return 0, err
				}
			}
			return 0, nil
		}
	}
	deep := fmt.Sprintf("f%08d", n-2*pageSize)
	p, err := l.Alternate(ctx, lab.LeastPairs, func(context.Context) error { return nil }, read(deep), read(""))
	if err != nil {
		return nil, err
	}
	r := p.Row("B3", fmt.Sprintf("a page behind %d entries of a folder / the first page", n), l.Scaled(pages, 10)).AtMost(1.2)
	rows, err := renamed(ctx, v.Storage, pool, at, url)
	return []lab.Row{r, rows}, err
}

// renamed returns the row with the changed rows of a rename.
func renamed(ctx context.Context, s *storage.Service, pool *pgxpool.Pool, at storage.Scope, url string) (lab.Row, error) {
	before, err := updates(ctx, url)
	if err != nil {
		return lab.Row{}, err
	}
	by := identity.Change[storage.Object]{Caller: identity.Caller{Tenant: at.Tenant, Project: at.Project, User: ids.New[ids.User](), CorrelationID: "bench"}}
	if _, err := s.Rename(ctx, by, objectpath.Path{"big"}, objectpath.Path{"moved"}, storage.Condition{}); err != nil {
		return lab.Row{}, err
	}
	// The connection of the pool reports its rows with its next statement.
	if _, err := pool.Exec(ctx, `SELECT pg_stat_force_next_flush()`); err != nil {
		return lab.Row{}, fmt.Errorf("reading the statistics: %w", err)
	}
	after, err := updates(ctx, url)
	changed := after - before
	return lab.Row{ID: "B3-rename", Path: "rows that a rename of this folder changes", Ours: changed, Peer: 1, Ratio: changed, Min: changed, Max: changed, Goal: "1", Met: new(changed == 1)}, err
}

// updates returns the number of updated rows of files, from the statistics of PostgreSQL, which lag a second behind.
func updates(ctx context.Context, url string) (float64, error) {
	lab.Wait(ctx, 2*time.Second)
	return lab.One[float64](ctx, url, `SELECT n_tup_upd::float8 FROM pg_stat_user_tables WHERE relname = 'storage_objects'`)
}
