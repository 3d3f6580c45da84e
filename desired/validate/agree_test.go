package validate

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cuelang.org/go/cue/ast"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/document"
)

// casesVariable sets how many documents are compared: a run of the tests has time for few.
const casesVariable = "GPUAAS_VALIDATE_CASES"

// The JSON Schema accepts what CUE accepts, with the same defaults, and nothing that CUE rejects.
func TestSchemaAgreesWithCUE(t *testing.T) {
	t.Parallel()
	cases := 4000
	if text := os.Getenv(casesVariable); text != "" {
		var err error
		if cases, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	seed := rand.Uint64()
	if text := os.Getenv("GPUAAS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("GPUAAS_SEED=%d", seed)
	g := generator{rand.New(rand.NewPCG(seed, 1))}
	c := checker(t)
	accepted, disagreements := 0, 0
	for range cases {
		source := g.document()
		text := document.LinesOf("a.json", []byte(source))
		root, findings := document.ReadJSON(text, []byte(source))
		if len(findings) > 0 {
			t.Fatalf("the reader rejects %s: %v", source, findings)
		}
		have, quick := c.accepted(&root, root.At.In("a.json"))
		want := c.data(text.Expr(&root), root.At.In("a.json"))
		switch {
		case quick && len(want.findings) > 0, !quick && len(want.findings) == 0 && !hasFloat(root):
			disagreements++
			t.Errorf("accepted: %v, by CUE: %v %v\n%s", quick, !quick, want.findings, source)
		case quick && cmp.Diff(want.object, have.object) != "":
			disagreements++
			t.Errorf("%s (-CUE +JSON Schema):\n%s", source, cmp.Diff(want.object, have.object))
		case quick:
			accepted++
		}
		if disagreements > 5 {
			t.Fatal("and so on")
		}
	}
	t.Logf("%d documents, %d accepted, %d disagreements", cases, accepted, disagreements)
	if accepted < cases/10 || accepted > cases*9/10 {
		t.Errorf("only %d of %d were accepted: the generator proves little", accepted, cases)
	}
}

// generator makes documents that are nearly right.
type generator struct{ *rand.Rand }

func (g generator) document() string {
	kind := desired.Kinds()[g.IntN(len(desired.Kinds()))]
	raw, err := json.Marshal(specs()[kind])
	if err != nil {
		panic(err)
	}
	var spec any
	if err := json.Unmarshal(raw, &spec); err != nil {
		panic(err)
	}
	source := map[string]any{
		"apiVersion": "gpuaas/v1alpha1", "kind": string(kind), "spec": spec,
		"metadata": map[string]any{"name": "x"},
	}
	if g.IntN(4) == 0 {
		source["metadata"].(map[string]any)["labels"] = map[string]any{g.text(): g.text(), "a": "b"}
	}
	if g.IntN(6) == 0 {
		source["metadata"].(map[string]any)["annotations"] = map[string]any{g.text(): g.text()}
	}
	for range g.IntN(4) {
		g.spoil(source)
	}
	out, err := json.Marshal(source)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// spoil changes one field somewhere: mostly to something that may well be right.
func (g generator) spoil(at map[string]any) {
	names := slices.Sorted(maps.Keys(at))
	if len(names) == 0 {
		at[g.text()] = g.value(2)
		return
	}
	name := names[g.IntN(len(names))]
	switch inner := at[name].(type) {
	case map[string]any:
		if g.IntN(20) > 0 {
			g.spoil(inner)
			return
		}
	case []any:
		if len(inner) > 0 && g.IntN(3) > 0 {
			i := g.IntN(len(inner))
			if item, ok := inner[i].(map[string]any); ok {
				g.spoil(item)
			} else {
				inner[i] = g.value(1)
			}
			return
		}
	}
	switch g.IntN(8) {
	case 0, 1:
		delete(at, name)
	case 2:
		if g.IntN(4) == 0 {
			at[g.text()] = g.value(1)
			return
		}
		at[name] = g.value(2)
	default:
		at[name] = g.like(at[name])
	}
}

// like is a value of the same type.
func (g generator) like(v any) any {
	switch v.(type) {
	case string:
		return g.text()
	case bool:
		return g.IntN(2) == 0
	case float64:
		return g.number()
	case []any:
		list := make([]any, g.IntN(3))
		for i := range list {
			list[i] = g.text()
		}
		return list
	}
	return g.value(1)
}

func (g generator) value(depth int) any {
	switch g.IntN(8) {
	case 0:
		return nil
	case 1:
		return g.IntN(2) == 0
	case 2, 3:
		return g.number()
	case 4:
		if depth > 0 {
			list := []any{}
			for range g.IntN(3) {
				list = append(list, g.value(depth-1))
			}
			return list
		}
	case 5:
		if depth > 0 {
			m := map[string]any{}
			for range g.IntN(3) {
				m[g.text()] = g.value(depth - 1)
			}
			return m
		}
	}
	return g.text()
}

func (g generator) number() any {
	return json.Number(pick(g, "0", "1", "-1", "2", "4", "8", "1023", "1024", "1025", "4096", "4097", "999", "1000", "1001", "2147483647", "2147483648", "1000000000",
		"1000000001", "9223372036854775807", "9223372036854775808", "-9223372036854775809", "123456789012345678901234567890", "1.0", "1.5", "1e3", "1E2", "0.0", "-0.5", "1e400", "-0"))
}

func (g generator) text() string {
	if g.IntN(6) == 0 { // of some length around a bound
		length := pick(g, 1, 2, 31, 32, 33, 62, 63, 64, 127, 128, 129, 253, 254, 256, 257, 512, 513)
		return strings.Repeat(pick(g, "a", "A", "0", "-", "é", "a/"), length)
	}
	if g.IntN(8) == 0 { // of fragments with a meaning in CUE or JSON
		var b strings.Builder
		for range 1 + g.IntN(6) {
			b.WriteString(pick(g, "a", "b7", "-", ".", "/", "_", ":", "A", "é", "e\u0301", " ", "\n", "\t", "\x00", "\u200d", "\u202e", "\u2028", "\ue000", "\U0001F600", "\u0378", "<", "&", `"`, `\`, "#", "@", "*", "\x7f", "ﬁ", "Å", "\u00ad"))
		}
		return b.String()
	}
	return pick(g, "", "a", "x", "t4", "a-b", "-a", "a-", "A", "gpu-01", "eu-1", "host_user", "slice_vm", "full_reimage", "whole_gpu", "manual", "maas", "simulated",
		"h100-8", "a100-8", "l40s-4", "t4-4", "none", "stripe", "admin", "operator", "billing_operator", "platform", "tenant:acme", "region:eu-1", "galaxy:x", "user:",
		"EUR", "eur", "EURO", "sha256:"+strings.Repeat("0", 64), "sha256:"+strings.Repeat("0", 63), someID, strings.ToUpper(someID), "d.example", "d..example", "https://id.example", "ftp://x",
		"https://u:p@h/x", "https://git.example/x.git", "ssh://git@git.example/x", "ssh://a:b@git.example/x", "file:///srv/git/x", "main", "-x", "refs/heads/main", ".", "..", "a/../b", "fleet/prod",
		"github", "gitlab", "gitea", "team/fleet", "team", "env:A", "env:1", "file:/x", "file:x", "credential:a", "hunter2", "listSKUs", "*", "billing.window_seconds", "GPU-1", "MIG-x/1", "GPU-",
		"a1", "_a", "2030-01-31T12:00:00Z", "2030-01-31T12:00:00.5+01:00", "2030-02-31T12:00:00Z", "2030-01-31", "2030-01-31T12:00:00,5Z", "2030-01-31T24:00:00Z", "2030-01-31t12:00:00z",
		"gpuaas/v1alpha1", "v1", "Node", "SKU", "true", "null", "1", "0x1", "_hidden", "#Def", "__x", "a b", "kind", "name", "NVIDIA H100 80GB HBM3")
}

func pick[T any](g generator, from ...T) T { return from[g.IntN(len(from))] }

// What the JSON Schema accepts has the places that CUE would have found.
func TestPlacesAgreeWithCUE(t *testing.T) {
	t.Parallel()
	documents := 0
	for _, verdict := range []string{"good", "bad"} {
		paths, err := filepath.Glob("../../cue/testdata/" + verdict + "/*.txtar")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range archive.Files {
				documents += samePlaces(t, path, f.Name, f.Data)
			}
		}
	}
	wide := []byte("# é\n- {}\n")
	samePlaces(t, "wide", "wide.yaml", append([]byte("apiVersion: gpuaas/v1alpha1\nkind: Policy\nmetadata: {annotations: {é: \"ü\"}, name: p}\nspec: {scope: platform, key: node.report_seconds, value: [\"é\"]}\n---\n"), wide...))
	if documents < 20 {
		t.Errorf("only %d documents were compared", documents)
	}
}

func samePlaces(t *testing.T, archive, name string, src []byte) int {
	t.Helper()
	u := unit{name, []string{name}}
	if !document.Readable(name) || strings.HasSuffix(name, ".cue") {
		return 0
	}
	fast, slow := checker(t), checker(t)
	slow.slow = true
	have := u.evaluate(fast, map[string][]byte{name: src})
	want := u.evaluate(slow, map[string][]byte{name: src})
	opt := cmp.AllowUnexported(part{}, checked{}, document.Place{}, fieldPlace{})
	if diff := cmp.Diff(want, have, opt); diff != "" {
		t.Errorf("%s: %s (-CUE +JSON Schema):\n%s", archive, name, diff)
	}
	return len(have.objects)
}

// hasFloat reports whether a document goes to CUE for one of its numbers.
func hasFloat(n document.Node) bool {
	_, ok := n.Plain()
	return !ok
}

// YAML and JSON have the same places: both count bytes, and YAML's parser counts characters.
func TestPlacesCountBytes(t *testing.T) {
	t.Parallel()
	const src = `{"é\u00fc": "ü", "a-b": {"c-d": ["é", {"e-f": 1}, "\ud83d\ude00"], "é": 2}}`
	have, findings := document.ReadJSON(document.LinesOf("a.json", []byte(src)), []byte(src))
	if len(findings) > 0 {
		t.Fatal(findings)
	}
	quoted := strings.ReplaceAll(src, `\ud83d\ude00`, `\U0001F600..`) // YAML has no pairs
	for want, findings := range document.ReadYAML(document.LinesOf("a.yaml", []byte(quoted)), []byte(quoted)) {
		if len(findings) > 0 {
			t.Fatal(findings)
		}
		if diff := cmp.Diff(places(*want), places(have)); diff != "" {
			t.Errorf("(-YAML +JSON):\n%s", diff)
		}
	}
}

// places lists the lines and columns of all values and names.
func places(n document.Node) (all []string) {
	all = append(all, fmt.Sprint(n.At))
	switch v := n.Value.(type) {
	case []document.Node:
		for _, item := range v {
			all = append(all, places(item)...)
		}
	case []document.Member:
		for _, m := range v {
			at := m.At
			if !ast.StringLabelNeedsQuoting(m.Name) {
				at.Column = 0 // behind the quote, in JSON
			}
			all = append(append(all, fmt.Sprint(m.Name, at)), places(m.Value)...)
		}
	}
	return all
}
