package validate

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/document"
	"github.com/gpuaas/gpuaas/internal/race"
)

// hostileCase is an attack by the author of a tree. Its code is the expected finding; if there are
// two, the speed of the computer decides which one is reported. No object may result from it.
type hostileCase struct {
	file string
	src  string
	code string
}

const head = "apiVersion: gpuaas/v1alpha1\nkind: Node\nmetadata: {name: a}\n"

func double(n int, of, line string) string {
	var b strings.Builder
	b.WriteString(of + "\n")
	for i := 1; i <= n; i++ {
		b.WriteString(strings.NewReplacer("NEXT", fmt.Sprint("a", i), "LAST", fmt.Sprint("a", i-1)).Replace(line) + "\n")
	}
	return b.String()
}

// hostile is the corpus: found ones are added, none is removed.
var hostile = map[string]hostileCase{
	// CUE that costs more than its size suggests.
	"cue disjunctions":          {"a.cue", disjunctions(), desired.CodeEvaluationLimit},
	"cue nested comprehensions": {"a.cue", "import \"list\"\nx: [for i in list.Range(0, 5000, 1) for j in list.Range(0, 5000, 1) {kind: \"\\(i)\\(j)\"}]", desired.CodeEvaluationLimit},
	"cue lists of lists":        {"a.cue", lists(8), desired.CodeEvaluationLimit + "|" + desired.CodeNotAnObject},
	"cue range":                 {"a.cue", "import \"list\"\nx: list.Range(0, 100000000, 1)", desired.CodeEvaluationLimit},
	"cue repeat":                {"a.cue", "import \"strings\"\nx: strings.Repeat(\"abcdefgh\", 100000000)", desired.CodeCUEEvaluation},
	"cue list repeat":           {"a.cue", "import \"list\"\nx: list.Repeat([1, 2, 3], 100000000)", desired.CodeCUEEvaluation},
	"cue text doubled":          {"a.cue", double(32, `a0: "abcdefgh"`, `NEXT: "\(LAST)\(LAST)"`), desired.CodeEvaluationLimit},
	"cue structs doubled":       {"a.cue", double(24, `a0: {x: 1}`, `NEXT: {l: LAST, r: LAST}`), desired.CodeEvaluationLimit + "|" + desired.CodeNotAnObject},
	"cue lets doubled":          {"a.cue", double(24, `let a0 = {x: 1}`, `let NEXT = {l: LAST, r: LAST}`) + "x: a24", desired.CodeEvaluationLimit + "|" + desired.CodeNotAnObject},
	"cue sort":                  {"a.cue", "import \"list\"\nx: list.SortStrings([for i in list.Range(0, 3000000, 1) {\"\\(i)\"}])", desired.CodeEvaluationLimit},
	"cue combinations":          {"a.cue", "import \"list\"\n" + double(26, `a0: [1]`, `NEXT: list.Concat([LAST, LAST])`), desired.CodeEvaluationLimit + "|" + desired.CodeNotAnObject},
	"cue yaml aliases within":   {"a.cue", "import \"encoding/yaml\"\nx: yaml.Unmarshal(\"\"\"\n\ta: &a [x, x, x, x, x, x, x, x, x]\n\tb: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n\tc: &c [*b, *b, *b, *b, *b, *b, *b, *b, *b]\n\td: &d [*c, *c, *c, *c, *c, *c, *c, *c, *c]\n\te: &e [*d, *d, *d, *d, *d, *d, *d, *d, *d]\n\tf: &f [*e, *e, *e, *e, *e, *e, *e, *e, *e]\n\tg: &g [*f, *f, *f, *f, *f, *f, *f, *f, *f]\n\t\"\"\")", desired.CodeCUEEvaluation},
	"cue power":                 {"a.cue", "import \"math\"\nx: math.Pow(10, 1000000000)", desired.CodeCUEEvaluation},
	"cue huge exponent":         {"a.cue", "x: 1e999999999", desired.CodeLooseValue},
	"cue product of exponents":  {"a.cue", "x: 10*1e9999999", desired.CodeLooseValue},
	"cue pattern":               {"a.cue", "x: =~\"(((((((((((a*)*)*)*)*)*)*)*)*)*)*\" & \"" + strings.Repeat("a", 1000) + "!\"", desired.CodeCUEEvaluation},
	"cue repeated pattern":      {"a.cue", "x: =~\"" + strings.Repeat("(a{1,100}){1,10}", 3) + "\" & \"a\"", desired.CodeCUEEvaluation},
	"cue deep structs":          {"a.cue", "x: " + strings.Repeat("{a:", 20000) + "1" + strings.Repeat("}", 20000), desired.CodeTooDeep + "|" + desired.CodeEvaluationLimit},
	"cue deep lists":            {"a.cue", "x: " + strings.Repeat("[", 20000) + strings.Repeat("]", 20000), desired.CodeTooDeep + "|" + desired.CodeEvaluationLimit},
	"cue deep parentheses":      {"a.cue", "x: " + strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000), desired.CodeTooDeep},
	"cue deep interpolation":    {"a.cue", "x: " + strings.Repeat(`"\(`, 20000) + "1" + strings.Repeat(`)"`, 20000), desired.CodeTooDeep},
	"cue long sum":              {"a.cue", "x: 1" + strings.Repeat(" + 1", 200000), desired.CodeTooDeep + "|" + desired.CodeEvaluationLimit},
	"cue long path":             {"a.cue", "x: a" + strings.Repeat(".a", 200000), desired.CodeTooDeep + "|" + desired.CodeEvaluationLimit},
	"cue long label":            {"a.cue", strings.Repeat("a: ", 100000) + "1", desired.CodeTooDeep + "|" + desired.CodeEvaluationLimit},
	"cue long name":             {"a.cue", strings.Repeat("a", 1<<20) + ": 1", desired.CodeLooseValue},

	// CUE that goes round in circles.
	"cue structural cycle": {"a.cue", "#A: {n: #A}\nx: #A", desired.CodeCUEEvaluation},
	"cue list in itself":   {"a.cue", "x: [x]", desired.CodeCUEEvaluation},
	"cue two references":   {"a.cue", "x: y + 1\ny: x - 1", desired.CodeLooseValue},
	"cue own fields":       {"a.cue", "x: {for k, v in x {\"\\(k)x\": v}, kind: \"Node\"}", desired.CodeCUEEvaluation},

	// CUE that reaches out.
	"cue foreign module": {"a.cue", "import \"github.com/evil/module\"\nx: module.x", desired.CodeImportRejected},
	"cue versioned":      {"a.cue", "import \"evil.example/x@v1\"\nx: x.y", desired.CodeImportRejected},
	"cue exec":           {"a.cue", "import \"tool/exec\"\nx: exec.Run & {cmd: \"id\"}", desired.CodeImportRejected},
	"cue file":           {"a.cue", "import \"tool/file\"\nx: file.Read & {filename: \"/etc/passwd\"}", desired.CodeImportRejected},
	"cue http":           {"a.cue", "import \"tool/http\"\nx: http.Get & {url: \"http://169.254.169.254/\"}", desired.CodeImportRejected},
	"cue os":             {"a.cue", "import \"tool/os\"\nx: os.Environ", desired.CodeImportRejected},
	"cue embed":          {"a.cue", "@extern(embed)\npackage a\nx: _ @embed(file=/etc/passwd,type=text)", desired.CodeImportRejected},
	"cue relative":       {"a.cue", "import \"../secret\"\nx: secret.x", desired.CodeImportRejected},
	"cue tool file":      {"a_tool.cue", "x: 1", desired.CodeToolFile},
	"cue test file":      {"a_test.cue", "x: 1", desired.CodeToolFile},
	"cue nowhere":        {"a.cue", "import \"nothing\"\nx: nothing.x", desired.CodeCUEEvaluation},

	// CUE that hides something.
	"cue hidden fields": {"a.cue", "_x: {apiVersion: \"gpuaas/v1alpha1\", kind: \"Node\"}", desired.CodeSourceEmpty},
	"cue definitions":   {"a.cue", "#x: {apiVersion: \"gpuaas/v1alpha1\", kind: \"Node\"}", desired.CodeSourceEmpty},
	"cue open choice":   {"a.cue", "x: {kind: \"Node\"} | {kind: \"SKU\"}", desired.CodeNotConcrete},
	"cue open object":   {"a.cue", "x: {apiVersion: \"gpuaas/v1alpha1\", kind: \"OSImage\", metadata: name: \"a\", spec: {digest: \"sha256:" + strings.Repeat("0", 64) + "\", root: true, ...}}", desired.CodeUnknownField},
	"cue nul":           {"a.cue", "x: \"\x00\"", desired.CodeCUESyntax},
	"cue not utf-8":     {"a.cue", "x: \"\xff\xfe\"", desired.CodeNotUTF8},
	"cue utf-16":        {"a.cue", "\xff\xfex\x00:\x00 \x001\x00", desired.CodeNotUTF8},
	"cue conflict":      {"a.cue", "x: 1\nx: 2", desired.CodeDuplicateName},
	"cue comments":      {"a.cue", strings.Repeat("// nothing\n", 90000), desired.CodeSourceEmpty},
	"cue attributes":    {"a.cue", "@a(" + strings.Repeat("x", 1<<20) + ")", desired.CodeSourceEmpty},
	"cue escapes":       {"a.cue", "x: {kind: \"Node\\u001b[2J\\u202e\"}", desired.CodeUnknownKind},

	// YAML.
	"yaml aliases":         {"a.yaml", "a: &a [x, x, x]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]\n", desired.CodeAliasLimit},
	"yaml many aliases":    {"a.yaml", "a: &a [" + strings.Repeat("x, ", 100) + "]\n" + strings.Repeat("- *a\n", 1), desired.CodeYAMLSyntax},
	"yaml alias in itself": {"a.yaml", "a: &a [*a]\n", desired.CodeAliasLimit},
	"yaml anchor alone":    {"a.yaml", head + "spec: &s {sku: t4, region: eu, gpus: 4}\n", desired.CodeAliasLimit},
	"yaml merge key":       {"a.yaml", "base: &b {x: 1}\n" + head + "spec: {<<: *b}\n", desired.CodeAliasLimit},
	"yaml merge literal":   {"a.yaml", head + "spec: {<<: {sku: t4}, region: eu, gpus: 4}\n", desired.CodeWrongType},
	"yaml tag of python":   {"a.yaml", head + "spec: !!python/object/apply:os.system [id]\n", desired.CodeYAMLTag},
	"yaml binary":          {"a.yaml", head + "spec: {sku: !!binary dDQ=, region: eu, gpus: 4}\n", desired.CodeYAMLTag},
	"yaml set":             {"a.yaml", head + "spec: !!set {sku, region}\n", desired.CodeYAMLTag},
	"yaml own tag":         {"a.yaml", head + "spec: !secret {sku: t4}\n", desired.CodeYAMLTag},
	"yaml repeated key":    {"a.yaml", head + "spec: {sku: t4, region: eu, gpus: 4, gpus: 8}\n", desired.CodeDuplicateKey},
	"yaml 1e400":           {"a.yaml", head + "spec: {sku: t4, region: eu, gpus: 1e400}\n", desired.CodeWrongType},
	"yaml octal":           {"a.yaml", head + "spec: {sku: t4, region: eu, gpus: 010}\n", desired.CodeAmbiguousValue},
	"yaml infinity":        {"a.yaml", head + "spec: {sku: t4, region: eu, gpus: .inf}\n", desired.CodeAmbiguousValue},
	"yaml no number":       {"a.yaml", head + "spec: {sku: t4, region: eu, gpus: .nan}\n", desired.CodeAmbiguousValue},
	"yaml huge number":     {"a.yaml", head + "spec: {sku: t4, region: eu, gpus: " + strings.Repeat("9", 500000) + "}\n", desired.CodeWrongType},
	"yaml hexadecimal":     {"a.yaml", head + "spec: {sku: t4, region: eu, gpus: 0xffffffffffffffffff}\n", desired.CodeWrongType},
	"yaml no":              {"a.yaml", head + "spec: {sku: t4, region: eu, gpus: 4, cordoned: no}\n", desired.CodeWrongType},
	"yaml utf-16":          {"a.yaml", "\xff\xfea\x00:\x00 \x001\x00", desired.CodeNotUTF8},
	"yaml utf-16 back":     {"a.yaml", "\xfe\xff\x00a\x00:\x00 \x001", desired.CodeNotUTF8},
	"yaml deep flow":       {"a.yaml", strings.Repeat("[", 100000) + strings.Repeat("]", 100000), desired.CodeYAMLSyntax},
	"yaml deep flow maps":  {"a.yaml", strings.Repeat("{a: ", 5000) + "1" + strings.Repeat("}", 5000), desired.CodeTooDeep},
	"yaml deep block":      {"a.yaml", deepBlock(800), desired.CodeTooDeep},
	"yaml huge text":       {"a.yaml", "apiVersion: gpuaas/v1alpha1\nkind: Node\nmetadata: {name: " + strings.Repeat("a", 900000) + "}\nspec: {sku: t4, region: eu, gpus: 4}\n", desired.CodeInvalidValue},
	"yaml many documents":  {"a.yaml", strings.Repeat("---\n", 200000), desired.CodeSourceEmpty},
	"yaml many items":      {"a.yaml", strings.Repeat("- 1\n", 200000), desired.CodeNotAnObject},
	"yaml many keys":       {"a.yaml", head + "spec:\n" + manyKeys(30000), desired.CodeEvaluationLimit},
	"yaml many objects":    {"a.yaml", strings.Repeat("--- {kind: x}\n", 20000), desired.CodeUnknownKind},
	"yaml tab":             {"a.yaml", "a:\n\tb: 1\n", desired.CodeYAMLSyntax},
	"yaml complex key":     {"a.yaml", "? [a, b]\n: c\n", desired.CodeWrongType},
	"yaml null key":        {"a.yaml", "~: x\n", desired.CodeWrongType},
	"yaml number as key":   {"a.yaml", "1: x\n", desired.CodeWrongType},
	"yaml version":         {"a.yaml", "%YAML 3.0\n---\na: 1\n", desired.CodeYAMLSyntax},
	"yaml open quote":      {"a.yaml", "a: \"" + strings.Repeat("x", 900000), desired.CodeYAMLSyntax},
	"yaml proto":           {"a.yaml", head + "__proto__: {a: 1}\nspec: {sku: t4, region: eu, gpus: 4}\n", desired.CodeUnknownField},
	"yaml status":          {"a.yaml", head + "status: {phase: ready}\nspec: {sku: t4, region: eu, gpus: 4}\n", desired.CodeStatusDeclared},
	"yaml escapes":         {"a.yaml", "apiVersion: gpuaas/v1alpha1\nkind: Node\nmetadata: {name: \"\\e[2J\\u202ea\"}\nspec: {sku: t4, region: eu, gpus: 4}\n", desired.CodeInvalidValue},
	"yaml allocation":      {"a.yaml", "apiVersion: gpuaas/v1alpha1\nkind: Allocation\nmetadata: {name: a}\nspec: {}\n", desired.CodeManagedByAPI},

	// JSON.
	"json deep":             {"a.json", strings.Repeat("[", 100000) + strings.Repeat("]", 100000), desired.CodeTooDeep},
	"json deep objects":     {"a.json", strings.Repeat(`{"a":`, 50000) + "1" + strings.Repeat("}", 50000), desired.CodeTooDeep},
	"json repeated key":     {"a.json", `{"kind": "Node", "kind": "SKU"}`, desired.CodeDuplicateKey},
	"json escaped key":      {"a.json", `{"kind": "Node", "\u006bind": "SKU"}`, desired.CodeDuplicateKey},
	"json many repeated":    {"a.json", "{" + strings.Repeat(`"a": 1, `, 50000) + `"a": 1}`, desired.CodeDuplicateKey},
	"json two documents":    {"a.json", `{"kind": "Node"} {"kind": "SKU"}`, desired.CodeJSONSyntax},
	"json no number":        {"a.json", `{"kind": NaN}`, desired.CodeJSONSyntax},
	"json comment":          {"a.json", "// hello\n{}", desired.CodeJSONSyntax},
	"json trailing comma":   {"a.json", `{"kind": "Node",}`, desired.CodeJSONSyntax},
	"json empty":            {"a.json", "", desired.CodeJSONSyntax},
	"json byte order mark":  {"a.json", "\ufeff{}", desired.CodeJSONSyntax},
	"json not utf-8":        {"a.json", "{\"kind\": \"\xff\"}", desired.CodeNotUTF8},
	"json lone surrogate":   {"a.json", `{"kind": "\ud800"}`, desired.CodeNotUTF8},
	"json 1e400":            {"a.json", jsonNode("1e400"), desired.CodeWrongType},
	"json huge number":      {"a.json", jsonNode(strings.Repeat("9", 900000)), desired.CodeAmbiguousValue},
	"json negative zero":    {"a.json", jsonNode("-0"), desired.CodeOutOfRange},
	"json nul in a name":    {"a.json", `{"apiVersion": "gpuaas/v1alpha1", "kind": "Node", "metadata": {"name": "a\u0000"}, "spec": {"sku": "t4", "region": "eu", "gpus": 4}}`, desired.CodeInvalidValue},
	"json many objects":     {"a.json", "[" + strings.Repeat("{},", 100000) + "{}]", desired.CodeMissingField},
	"json secret for a ref": {"a.json", `{"apiVersion": "gpuaas/v1alpha1", "kind": "Environment", "metadata": {"name": "a"}, "spec": {"region": "a", "trustDomain": "a", "sources": [{"name": "a", "repository": "https://x/y", "auth": {"tokenRef": "hunter2"}}]}}`, desired.CodeSecretInClear},
}

func deepBlock(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  k%d: 1\n", i)
	}
	return b.String()
}

func jsonNode(gpus string) string {
	return `{"apiVersion": "gpuaas/v1alpha1", "kind": "Node", "metadata": {"name": "a"}, "spec": {"sku": "t4", "region": "eu", "gpus": ` + gpus + `}}`
}

// Half of the limits of a source. A bomb exceeds one of them; every other case stays within.
var hostileLimits = Limits{MemoryBytes: 256 << 20, CPU: 2 * time.Second, Wall: 30 * time.Second}

// INV-15: each case is rejected with its code, within the limits, and with a short message.
func TestINV15HostileDeclarations(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the kernel's limits are Linux's")
	}
	if race.Enabled {
		t.Skip("the race detector needs more memory than a child may use")
	}
	if len(hostile) < 55 {
		t.Errorf("only %d cases", len(hostile))
	}
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := runWithin(t.Context(), hostileLimits, map[string][]byte{"fleet/" + c.file: []byte(c.src)})
			if err != nil {
				t.Fatal(err)
			}
			if r.OK() || len(r.Objects) > 0 || len(r.Findings) > mostFindings+1 {
				t.Fatalf("%d objects, %d findings", len(r.Objects), len(r.Findings))
			}
			if !slices.ContainsFunc(r.Findings, func(f desired.Finding) bool { return slices.Contains(strings.Split(c.code, "|"), f.Code) }) {
				t.Errorf("want %s, have %s: %.300s", c.code, r.Findings[0].Code, r.Findings[0])
			}
			for _, f := range r.Findings {
				if len(f.String()) > 3000 || document.Printable(f.String()) != f.String() || strings.Contains(f.String(), "hunter2") {
					t.Errorf("a finding of %d bytes: %.200q", len(f.String()), f)
				}
				if f.Path != "fleet/"+c.file && f.Path != "." || f.Line < 1 {
					t.Errorf("elsewhere: %s:%d", f.Path, f.Line)
				}
			}
		})
	}
}

// A bomb in one source costs others less than as much again: it has one thread, a
// low priority, and ends.
func TestINV15OthersGoOn(t *testing.T) { //nolint:paralleltest // it measures
	if runtime.NumCPU() < 2 {
		t.Skip("there is one core for both")
	}
	files := map[string][]byte{"fleet.yaml": []byte(fleet(1000))}
	once := func() time.Duration {
		began := time.Now()
		if r, err := Run(t.Context(), files); err != nil || !r.OK() {
			t.Fatal(r.Findings, err)
		}
		return time.Since(began)
	}
	bomb := func() func() {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = runWithin(ctx, Limits{256 << 20, time.Minute, time.Minute}, map[string][]byte{"a.cue": []byte(disjunctions())})
		}()
		return func() { stop(); <-ended }
	}
	var ratio float64
	for range 4 { // other processes need the CPU, too
		var alone, beside time.Duration
		for range 5 {
			alone += once()
			end := bomb()
			beside += once()
			end()
		}
		if ratio = float64(beside) / float64(alone); ratio < 2 {
			t.Logf("%.2f times as long next to a bomb", ratio)
			return
		}
	}
	t.Errorf("%.2f times as long next to a bomb", ratio)
}
