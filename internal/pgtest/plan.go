package pgtest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// KeepIndexes fails if a statement uses other indexes or conditions as the API's role than as a
// role without row-level security: PostgreSQL evaluates a policy before every condition that is not
// leakproof.
func KeepIndexes(t *testing.T, statements map[string]string) {
	t.Helper()
	tx := Tx(t)
	for name, sql := range statements {
		d, err := tx.Prepare(t.Context(), name, sql)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, sql)
		}
		free, confined := indexesOf(t, tx, "gpuaas", d), indexesOf(t, tx, "gpuaas_api", d)
		if len(free) == 0 {
			t.Errorf("%s uses no index, so there is nothing to check", name)
		}
		for _, index := range free {
			if !slices.Contains(confined, index) {
				t.Errorf("%s: %s is not what the API's role uses:\n%s", name, index, strings.Join(confined, "\n"))
			}
		}
	}
}

// indexesOf plans a prepared statement for whatever arguments.
func indexesOf(t *testing.T, tx pgx.Tx, role string, d *pgconn.StatementDescription) (found []string) {
	t.Helper()
	nulls := strings.TrimSuffix(strings.Repeat("NULL, ", len(d.ParamOIDs)), ", ")
	for _, sql := range []string{"SET LOCAL enable_seqscan = off", "SET LOCAL plan_cache_mode = force_generic_plan", "SET LOCAL ROLE " + role} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	explain := fmt.Sprintf("EXPLAIN (FORMAT json) EXECUTE %s", pgx.Identifier{d.Name}.Sanitize())
	if nulls != "" {
		explain += "(" + nulls + ")"
	}
	var text []byte
	if err := tx.QueryRow(t.Context(), explain).Scan(&text); err != nil {
		t.Fatalf("%s as %s: %v", d.Name, role, err)
	}
	var plan any
	if err := json.Unmarshal(text, &plan); err != nil {
		t.Fatal(err)
	}
	visit(plan, func(node map[string]any) {
		if index, ok := node["Index Name"]; ok {
			found = append(found, numbered.ReplaceAllString(fmt.Sprintf("%v: %v", index, node["Index Cond"]), "."))
		}
	})
	return found
}

// numbered matches the suffix that PostgreSQL's planner adds to an alias that a policy uses as
// well.
var numbered = regexp.MustCompile(`_\d+\.`)

func visit(v any, each func(map[string]any)) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			visit(one, each)
		}
	case map[string]any:
		each(v)
		for _, one := range v {
			visit(one, each)
		}
	}
}
