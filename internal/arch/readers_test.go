package arch

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	reading  = regexp.MustCompile(`(DELETE )?\b(?:FROM|JOIN)\s+(?:ONLY\s+|LATERAL\s+)?((?:public\.)?\w+(?:\s+(?:AS\s+)?[a-z]\w*)?(?:\s*,\s*(?:public\.)?\w+(?:\s+(?:AS\s+)?[a-z]\w*)?)*)`)
	dropping = regexp.MustCompile(`(?m)^\s*DROP TABLE ((?:\w+)(?:, \w+)*);`)
	// defining matches what a migration creates besides tables: what these statements read is read by their callers.
	defining = regexp.MustCompile(`(?s)CREATE (?:OR REPLACE )?(?:FUNCTION|VIEW|POLICY)\b.*?(?:\n\$\$;|\nEND \$\$;|;\n)`)
)

// readOf returns the tables that a statement reads. A table that it only deletes from is not read; one whose changed rows it
// returns is.
func readOf(sql string) (tables []string) {
	if strings.Contains(sql, "RETURNING") {
		tables = written(sql)
	}
	for _, match := range reading.FindAllStringSubmatch(comment.ReplaceAllString(sql, ""), -1) {
		if match[1] != "" {
			continue
		}
		for item := range strings.SplitSeq(match[2], ",") {
			word, _, _ := strings.Cut(strings.TrimSpace(item), " ")
			word, _, _ = strings.Cut(word, "\n")
			tables = append(tables, strings.TrimPrefix(word, "public."))
		}
	}
	return tables
}

// TestEveryTableHasAReader: a table that no code reads only grows. Tests, tools and the end of
// old rows do not count as readers.
func TestEveryTableHasAReader(t *testing.T) {
	t.Parallel()
	readers, dropped := map[string]bool{}, []string{}
	for _, f := range sources(t) {
		if f.test || underAny(f.pkg, []string{"internal", "e2e", "scripts", "jobs/retention"}) {
			continue
		}
		for _, text := range literals(f.syntax) {
			for _, table := range readOf(text) {
				readers[table] = true
			}
		}
	}
	walk(t, func(path string) {
		if !under(path, "migrations") || !strings.HasSuffix(path, ".sql") || strings.Contains(path, "testdata") {
			return
		}
		text := read(t, path)
		for _, match := range dropping.FindAllStringSubmatch(text, -1) {
			dropped = append(dropped, strings.Split(match[1], ", ")...)
		}
		for _, text := range defining.FindAllString(text, -1) {
			for _, table := range readOf(text) {
				readers[table] = true
			}
		}
	})
	for table := range owners(t) {
		if readers[table] || slices.Contains(dropped, table) || strings.HasSuffix(table, "_other") {
			continue
		}
		t.Errorf("no code reads %s: use it, or drop it in a migration", table)
	}
}
