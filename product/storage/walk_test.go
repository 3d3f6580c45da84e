package storage

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

// The cost of a path does not depend on the number of files of an installation.
func TestPathsAreReadByIndexes(t *testing.T) {
	t.Parallel()
	db, tenant, project, folder := pgtest.Clone(t), ids.New[ids.Tenant](), ids.New[ids.Project](), ids.New[ids.Object]()
	for _, sql := range []string{
		`INSERT INTO storage_objects (id, org_id, project_id, parent_id, name, folded, type) VALUES ('PROJECT', 'TENANT', 'PROJECT', NULL, '', '', 'folder'), ('FOLDER', 'TENANT', 'PROJECT', 'PROJECT', 'big', 'big', 'folder')`,
		`INSERT INTO storage_objects (id, org_id, project_id, parent_id, name, folded, type, object_key)
			SELECT gen_random_uuid(), 'TENANT', 'PROJECT', 'FOLDER', 'f' || i, 'f' || i, 'file', gen_random_uuid() FROM generate_series(1, 20000) i`,
		`VACUUM ANALYZE storage_objects`,
	} {
		sql = strings.NewReplacer("PROJECT", project.String(), "TENANT", tenant.String(), "FOLDER", folder.String()).Replace(sql)
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	api := pgtest.As(t, db, "gpuaas_api")
	for name, c := range map[string]struct {
		sql  string
		args []any
	}{
		"down": {selectPath, []any{project, []string{"big", "f7"}}},
		"up":   {selectFolders, []any{folder}},
	} {
		rows, err := api.Query(t.Context(), "EXPLAIN "+c.sql, c.args...)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if text := strings.Join(plan, "\n"); err != nil || strings.Contains(text, "Seq Scan") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}
