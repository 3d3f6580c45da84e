package migrations_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

var update = flag.Bool("update", false, "add new migrations to history.sum")

// historyFile lists the migrations with their SHA-256, in order, as sha256sum does.
const historyFile = "history.sum"

// TestHistoryIsUnchanged compares the migrations with history.sum. A database that has run a migration never runs it again,
// so an edit of the file would give two installations of one release different schemas.
func TestHistoryIsUnchanged(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(historyFile)
	if err != nil {
		t.Fatal(err)
	}
	history := map[string]string{}
	last := ""
	for line := range strings.Lines(string(text)) {
		sum, name, ok := strings.Cut(strings.TrimSpace(line), "  ")
		if !ok || name <= last {
			t.Fatalf("%s: line %q is not a hash and a name in ascending order", historyFile, line)
		}
		history[name], last = sum, name
	}
	if len(history) < 20 {
		t.Fatalf("%s has only %d migrations", historyFile, len(history))
	}

	var added strings.Builder
	present := migrationFiles(t)
	for _, name := range present {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		sum := fmt.Sprintf("%x", sha256.Sum256(file))
		switch kept, known := history[name]; {
		case known && kept != sum:
			t.Errorf("%s has changed. Databases have run it already: undo the edit and add a migration", name)
		case !known && name < last:
			t.Errorf("%s is lower than %s, which databases have run already: give it a higher number", name, last)
		case !known && *update:
			fmt.Fprintf(&added, "%s  %s\n", sum, name)
		case !known:
			t.Errorf("%s is not in %s: run go test ./migrations -run HistoryIsUnchanged -update", name, historyFile)
		}
	}
	for name := range history {
		if !slices.Contains(present, name) {
			t.Errorf("%s is gone. Databases have run it already: restore it", name)
		}
	}
	if added.Len() > 0 {
		if err := os.WriteFile(historyFile, append(text, added.String()...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// migrationFiles returns the names of the migrations in order. Roles and grants are no history: each start applies
// them as a whole.
func migrationFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.sql")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(name string) bool { return name == "roles.sql" || name == "grants.sql" })
}

// TestEverythingIsDescribed requires a COMMENT ON for each table, view, sequence and function of ours, so that psql
// explains the database.
func TestEverythingIsDescribed(t *testing.T) {
	t.Parallel()
	tx := pgtest.Tx(t)
	undescribed := names(t, tx, `
		SELECT c.oid::regclass::text FROM pg_class c
		WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm', 'S') AND NOT relispartition
			AND relname NOT LIKE 'goose%' AND coalesce(obj_description(oid, 'pg_class'), '') NOT LIKE '%.'
			AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'i') -- identity columns
		UNION ALL
		SELECT p.oid::regprocedure::text FROM pg_proc p
		WHERE pronamespace = 'public'::regnamespace AND coalesce(obj_description(oid, 'pg_proc'), '') NOT LIKE '%.'
			AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e') -- extensions`)
	for _, name := range undescribed {
		t.Errorf("%s has no COMMENT ON, or one that is no sentence", name)
	}
	if n := len(names(t, tx, `SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND obj_description(oid, 'pg_class') <> ''`)); n < 50 {
		t.Errorf("only %d tables are described", n)
	}
}
