package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func lists(t *testing.T) *rules {
	t.Helper()
	r, err := readRules("rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each text breaks one rule, or none.
func TestRules(t *testing.T) {
	t.Parallel()
	r := lists(t)
	for what, c := range map[string]struct {
		got   string
		fault bool
	}{
		"good summary":                {r.summary("List SSH keys"), false},
		"summary without verb":        {r.summary("Your allocations, newest first"), true},
		"summary with an article":     {r.summary("Get the balance"), true},
		"summary that is too long":    {r.summary("List payment sessions of all tenants and projects"), true},
		"summary of another verb":     {r.summary("Show balance"), true},
		"good short":                  {r.short("Show balance, burn rate and runway"), false},
		"short with a clause":         {r.short("Release an allocation; charging stops"), true},
		"short with a comma clause":   {r.short("List keys, newest first"), true},
		"short that is a noun":        {r.short("One allocation"), true},
		"short with a full stop":      {r.short("List keys."), true},
		"good name":                   {r.name("ScheduleEviction"), false},
		"name with a rejected word":   {r.name("LastStanding"), true},
		"abbreviation before a word":  {r.name("URLTold"), true},
		"name in snake case":          {r.name("was_told"), true},
		"part of another word":        {r.name("Bloomfield"), false},
		"name that is rejected whole": {r.name("hall"), true},
		"allowed name":                {r.name("writeKnownHosts"), false},
	} {
		if (c.got != "") != c.fault {
			t.Errorf("%s: %q", what, c.got)
		}
	}
}

func TestVagueDocComments(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]bool{
		"Leave is by when an allocation is to be off its node.": true,
		"known is what the schema says.":                        true,
		"rooms are where things stand.":                         true,
		"told is what was said.":                                true,
		"Deplete releases all active allocations of a tenant.":  false,
		"Released reports whether the allocation has ended.":    false,
	} {
		if vague(doc) != want {
			t.Errorf("%q: vague is %v", doc, vague(doc))
		}
	}
}

func TestWordsInTexts(t *testing.T) {
	t.Parallel()
	r := lists(t)
	found := r.texts("x.md", 1, "The state machine\nholds a row.\nNobody was told anew.")
	var all []string
	for _, f := range found {
		all = append(all, f.Rule+" "+f.String())
	}
	slices.Sort(all)
	want := `counted_text x.md:2: "holds", rejected_text x.md:3: "Nobody", rejected_text x.md:3: "anew", rejected_text x.md:3: "told"`
	if got := strings.Join(all, ", "); got != want {
		t.Errorf("found %s", got)
	}
}

// TestGoFile finds declared names, doc comments and words in comments and strings of a Go file.
func TestGoFile(t *testing.T) {
	t.Parallel()
	const source = `package hall

// Standing is what stands.
type Standing struct{ Told bool }

func (Standing) judge() { local := 1; _ = local } // whoever

const told = "nobody knows it"
`
	found, err := lists(t).file("a/world.go", []byte(source), map[string]bool{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	n := map[string]int{}
	for _, f := range found {
		if n[f.Rule]++; f.Rule == ruleName {
			names = append(names, f.What)
		}
	}
	want := []string{
		`file name world contains "world"`, "name hall: use waiters", `name Standing contains "standing"`,
		`name Told contains "told"`, `name judge contains "judge"`, `name told contains "told"`,
	}
	if !slices.Equal(names, want) {
		t.Errorf("names: %q", names)
	}
	if n[ruleDoc] != 1 || n[ruleRejected] != 2 || n[ruleCounted] != 2 {
		t.Errorf("found %v of %v", n, found)
	}
}

// The schemas of specs at the end of the contract repeat comments of cue/schema, where they are counted.
func TestGeneratedEndIsSkipped(t *testing.T) {
	t.Parallel()
	text := strings.Join([]string{"told", "# Code generated from x by y. DO NOT EDIT.", "told"}, "\n")
	got, err := lists(t).file("a.yaml", []byte(text), map[string]bool{})
	if err != nil || len(got) != 1 || got[0].Line != 1 {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestShortsAndSummaries(t *testing.T) {
	t.Parallel()
	r := lists(t)
	page := "- [gpuaas alloc](#gpuaas-alloc): Manage allocations\n- [gpuaas keys](#gpuaas-keys): Keys that may log in\n"
	if found := r.shorts("cli.md", page); len(found) != 1 || found[0].Line != 2 {
		t.Errorf("shorts: %v", found)
	}
	const doc = "paths:\n  /a:\n    parameters: []\n    get: {operationId: listA, summary: List As}\n    post: {operationId: makeA, summary: Ask for an A}\n"
	found, err := r.summaries("openapi.yaml", []byte(doc))
	if err != nil || len(found) != 1 || !strings.HasPrefix(found[0].What, "makeA") {
		t.Errorf("summaries: %v %v", found, err)
	}
}

// A budget may fall and move between folders. It never rises.
func TestBudget(t *testing.T) {
	t.Parallel()
	three := []finding{{ruleName, "a/x.go", 1, "x"}, {ruleName, "a/x.go", 2, "y"}, {ruleName, "b/x.go", 1, "z"}}
	now := count(three)
	for what, c := range map[string]struct {
		budget counts
		ok     bool
		over   int
	}{
		"equal":        {counts{ruleName: {"a": 2, "b": 1}}, true, 0},
		"moved":        {counts{ruleName: {"a": 1, "b": 2}}, false, 0},
		"could fall":   {counts{ruleName: {"a": 2, "b": 2}}, false, 0},
		"has risen":    {counts{ruleName: {"a": 2}}, false, 1},
		"a folder new": {counts{ruleName: {"c": 3}}, false, 0},
	} {
		var out strings.Builder
		if err := compare(&out, now, c.budget, three); (err == nil) != c.ok {
			t.Errorf("%s: %v\n%s", what, err, out.String())
		}
		if over := now.over(c.budget); len(over) != c.over {
			t.Errorf("%s: over %v", what, over)
		}
	}
	file := filepath.Join(t.TempDir(), "budget.yaml")
	if err := now.save(file); err != nil {
		t.Fatal(err)
	}
	if again, err := readBudget(file); err != nil || again.total(ruleName) != 3 || again[ruleName]["b"] != 1 {
		t.Errorf("read back %v %v", again, err)
	}
}

func TestSkipped(t *testing.T) {
	t.Parallel()
	skip := []string{"testdata", "web/dist", "docs/glossary.md"}
	for file, want := range map[string]bool{
		"a/testdata/b.go": true, "web/dist/index.js": true, "docs/glossary.md": true, "web/distant.go": false, "docs/README.md": false, "testdata.go": false,
	} {
		if skipped(file, skip) != want {
			t.Errorf("%s", file)
		}
	}
}

// The lists are complete: each word of the first table of the glossary is rejected in texts.
func TestListsHoldTheGlossary(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/glossary.md")
	if err != nil {
		t.Fatal(err)
	}
	r := lists(t)
	_, table, _ := strings.Cut(string(page), "<!-- rejected words -->")
	table, _, _ = strings.Cut(table, "<!-- end -->")
	n := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 3 || strings.Contains(line, "---") || strings.Contains(line, "do not write") {
			continue
		}
		for word := range strings.SplitSeq(cells[1], ",") {
			if word = strings.TrimSpace(word); !strings.ContainsAny(word, `"(`) && !slices.Contains(r.RejectedTexts, word) {
				t.Errorf("%q is in the table but not in rules.yaml", word)
			} else {
				n++
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d words found in the table", n)
	}
}
