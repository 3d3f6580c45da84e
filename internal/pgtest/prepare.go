package pgtest

import (
	"regexp"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A column may be called like a table, so only names in a table's place count.
var tablePlace = regexp.MustCompile(`(?i)\b(?:FROM|JOIN|INTO|UPDATE|TABLE|USING)\s+([a-z_][a-z0-9_]*)`)

// Prepare prepares each statement of a package against the present schema. It fails if a statement
// names one of our tables that is not in the list.
func Prepare(t *testing.T, tables []string, statements map[string]string) {
	t.Helper()
	tx := Tx(t)
	rows, err := tx.Query(t.Context(), `SELECT relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname = 'public'`)
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for name, sql := range statements {
		if _, err := tx.Prepare(t.Context(), name, sql); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, sql)
		}
		for _, at := range tablePlace.FindAllStringSubmatch(sql, -1) {
			if table := at[1]; slices.Contains(all, table) && !slices.Contains(tables, table) {
				t.Errorf("%s names %s, a table of another package", name, table)
			}
		}
	}
}
