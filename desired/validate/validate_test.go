package validate

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/environments"
)

var update = flag.Bool("update", false, "write the golden parts of testdata again")

// TestMain makes the test binary its own validation child.
func TestMain(m *testing.M) {
	Child()
	os.Exit(m.Run())
}

// Each archive contains the files of a tree, and its expected findings or objects.
func TestGolden(t *testing.T) {
	t.Parallel()

	for _, verdict := range []string{"good", "bad"} {
		paths, err := filepath.Glob("../../cue/testdata/" + verdict + "/*.txtar")
		if err != nil || len(paths) == 0 {
			t.Fatalf("no %s documents: %v", verdict, err)
		}
		for _, path := range paths {
			t.Run(verdict+"/"+strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
				t.Parallel()
				golden(t, path, verdict == "good")
			})
		}
	}
}

func golden(t *testing.T, path string, good bool) {
	t.Helper()
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	var kept []txtar.File
	var want string
	for _, f := range archive.Files {
		if f.Name == "findings" || f.Name == "objects" {
			want = string(f.Data)
			continue
		}
		files[f.Name] = f.Data
		kept = append(kept, f)
	}
	r, err := evaluate(files, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if r.OK() != good {
		t.Errorf("OK is %v", r.OK())
	}
	for _, f := range r.Findings {
		if _, known := desired.RuleOf(f.Code); !known {
			t.Errorf("no rule has the code %q of %s", f.Code, f)
		}
	}
	name, have := "findings", findingsText(r)
	if good {
		name, have = "objects", objectsText(r)
	}
	if *update {
		archive.Files = append(kept, txtar.File{Name: name, Data: []byte(have)})
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("%s (-want +have):\n%s", name, diff)
	}
}

func findingsText(r Result) string {
	var out strings.Builder
	for _, f := range r.Findings {
		out.WriteString(f.String() + " [" + f.Code + "]\n")
	}
	return out.String()
}

func objectsText(r Result) string {
	var out strings.Builder
	for _, o := range r.Objects {
		out.WriteString(o.Source.String() + " " + string(o.Kind) + "/" + o.Name + " " + string(o.Spec) + "\n")
	}
	return out.String()
}

// Each environment is a profile with a fleet and a catalogue that fit together.
func TestEnvironmentsAreValid(t *testing.T) {
	t.Parallel()

	for _, name := range environments.Names() {
		files, err := environments.Files(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(t.Context(), files)
		if err != nil {
			t.Fatal(err)
		}
		if !r.OK() {
			t.Fatal(findingsText(r))
		}
		count := map[desired.Kind]int{}
		development := false
		for _, o := range r.Objects {
			count[o.Kind]++
			switch o.Kind {
			case desired.KindEnvironment:
				development = strings.Contains(string(o.Spec), `"development":true`)
				if o.Name != name {
					t.Errorf("the profile of %s is called %s", name, o.Name)
				}
			case desired.KindNode:
				// A simulated node must not be sellable: no tenant could use it.
				if simulated := strings.Contains(string(o.Spec), `"onboarding":"simulated"`); simulated != development {
					t.Errorf("%s of %s is simulated: %v", o.Name, name, simulated)
				}
			}
		}
		for _, kind := range []desired.Kind{desired.KindEnvironment, desired.KindPolicy, desired.KindSKU, desired.KindNode} {
			if count[kind] == 0 {
				t.Errorf("%s declares no %s", name, kind)
			}
		}
	}
}
