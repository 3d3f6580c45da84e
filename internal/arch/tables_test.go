package arch

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// migration matches NUMBER_OWNER.sql and NUMBER_OWNER_TOPIC.sql.
var (
	migration   = regexp.MustCompile(`^migrations/\d{5}_([a-z]+)(?:_[a-z_]+)?\.sql$`)
	createTable = regexp.MustCompile(`(?m)^\s*CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(\w+)`)
)

// tableOwners are the folders of owners that are not in layers.
var tableOwners = map[string]string{
	"migrations": "migrations", "policies": "policies",
	"desired": "desired", "revision": "desired/revision", "observed": "observed",
	"reconciler": "reconciler", "change": "gitops/change", "forge": "gitops/forge", "nodetask": "jobs/nodetask",
	"webhook": "platform/notification/webhook",
}

// tableGroup is a group of packages that may name each other's tables in joins. Each of them writes
// its own tables only.
var tableGroup = []string{"product/slots", "product/fleet", "product/nodehealth", "product/agentrelease"}

// sharedTables may also be named by these folders. The plans of the loop and the plans of changes
// are one list for operators.
var sharedTables = map[string][]string{"plans": {"gitops/change"}}

// owners returns the folder that owns each table: the name of a migration file
// contains its package. Functions and views are left out, because a package
// publishes them for others.
func owners(t *testing.T) map[string]string {
	t.Helper()
	owner := map[string]string{}
	walk(t, func(path string) {
		if !under(path, "migrations") || !strings.HasSuffix(path, ".sql") {
			return
		}
		tables := createTable.FindAllStringSubmatch(read(t, path), -1)
		if len(tables) == 0 || strings.Contains(path, "/testdata/") {
			return
		}
		match := migration.FindStringSubmatch(path)
		if match == nil || folderOf(match[1]) == "" {
			t.Errorf("%s creates tables, and its name contains no package: name it NUMBER_PACKAGE.sql, and list the package in layers or tableOwners", path)
			return
		}
		for _, table := range tables {
			owner[table[1]] = folderOf(match[1])
		}
	})
	if len(owner) < 20 {
		t.Fatalf("only %d tables found in migrations", len(owner))
	}
	return owner
}

// folderOf returns the folder of the package in the name of a migration file, or "".
func folderOf(name string) string {
	if folder := tableOwners[name]; folder != "" {
		return folder
	}
	for group, order := range layers {
		if slices.Contains(order, name) {
			return group + "/" + name
		}
	}
	return ""
}

// lawless are folders without tables of their own: the schema, tools, and programs that test the
// product from outside.
var lawless = []string{"migrations", "internal", "e2e", "scripts"}

// TestTablesStayInTheirPackage is TAB-03: a statement names only tables of its own package. Other
// packages call the owner, its view or its function. A foreign key may cross.
func TestTablesStayInTheirPackage(t *testing.T) {
	t.Parallel()
	owner := owners(t)
	judge := func(path, pkg, text string) {
		for _, table := range tablesOf(text) {
			room := owner[table]
			if underAny(pkg, tableGroup) && underAny(room, tableGroup) {
				continue
			}
			if room != "" && !under(pkg, room) && !underAny(pkg, sharedTables[table]) {
				t.Errorf("%s names table %s of %s: call that package, or use its view or function", path, table, room)
			}
		}
	}
	for _, f := range sources(t) {
		if underAny(f.pkg, tableGroup) && !f.test {
			for _, text := range literals(f.syntax) {
				for _, table := range written(text) {
					if room := owner[table]; room != "" && !under(f.pkg, room) {
						t.Errorf("%s writes table %s of %s: call that package", f.path, table, room)
					}
				}
			}
		}
		if f.test || underAny(f.pkg, lawless) {
			continue
		}
		for _, text := range literals(f.syntax) {
			judge(f.path, f.pkg, text)
		}
	}
	walk(t, func(path string) {
		if strings.HasSuffix(path, ".sql") && !underAny(path, lawless) {
			judge(path, path, read(t, path))
		}
	})
}

var writing = regexp.MustCompile(`(\bFOR |\bDO )?\b(?:INSERT INTO|UPDATE|DELETE FROM)\s+(?:ONLY\s+)?(\w+)`)

// written returns the tables that a statement writes. FOR UPDATE locks and DO UPDATE continues an INSERT.
func written(sql string) (tables []string) {
	for _, match := range writing.FindAllStringSubmatch(comment.ReplaceAllString(sql, ""), -1) {
		if match[1] == "" {
			tables = append(tables, match[2])
		}
	}
	return tables
}

func literals(syntax *ast.File) (texts []string) {
	ast.Inspect(syntax, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}

// Our statements have upper-case keywords, so that prose does not match. FROM has a list of tables,
// as in UPDATE … FROM a, b.
var (
	naming  = regexp.MustCompile(`\b(?:FROM|JOIN|INTO|UPDATE|TRUNCATE|TABLE|USING|COPY)\s+(?:ONLY\s+|LATERAL\s+)?((?:public\.)?\w+(?:\s+(?:AS\s+)?[a-z]\w*)?(?:\s*,\s*(?:public\.)?\w+(?:\s+(?:AS\s+)?[a-z]\w*)?)*)`)
	comment = regexp.MustCompile(`--[^\n]*`)
)

func tablesOf(sql string) (tables []string) {
	for _, match := range naming.FindAllStringSubmatch(comment.ReplaceAllString(sql, ""), -1) {
		for item := range strings.SplitSeq(match[1], ",") {
			word, _, _ := strings.Cut(strings.TrimSpace(item), " ")
			word, _, _ = strings.Cut(word, "\n")
			tables = append(tables, strings.TrimPrefix(word, "public."))
		}
	}
	return tables
}

func TestTablesOf(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string][]string{
		"SELECT 1 FROM nodes n JOIN slots ON true":           {"nodes", "slots"},
		"SELECT 1 FROM nodes AS n, slots s, gpus WHERE n.id": {"nodes", "slots", "gpus"},
		"INSERT INTO public.nodes (id) SELECT 1":             {"nodes"},
		"UPDATE ONLY nodes SET x = 1 FROM\n\tslots":          {"nodes", "slots"},
		"DELETE FROM nodes USING slots":                      {"nodes", "slots"},
		"SELECT id FROM nodes FOR UPDATE":                    {"nodes"},
		"-- never read FROM slots here\nSELECT 1":            nil,
		"no slots are free, update nodes from the report":    nil,
	} {
		if got := tablesOf(sql); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", sql, got, want)
		}
	}
}
