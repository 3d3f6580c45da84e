package scaffold_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/cli/local/scaffold"
	"github.com/gpuaas/gpuaas/deploy/ci"
)

// editor checks as an editor would: by the schema that the scaffold brings.
func editor(t *testing.T, files map[string][]byte) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(files["schema/gpuaas.schema.json"]))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func documents(t *testing.T, text []byte) (all []any) {
	t.Helper()
	for d := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var one any
		err := d.Decode(&one)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
}

func TestEditorsAcceptTheScaffold(t *testing.T) {
	t.Parallel()
	for _, forge := range ci.Forges() {
		files, err := scaffold.Files(scaffold.Options{Environment: "staging", Region: "eu-2", TrustDomain: "x.example", Forge: forge, Source: "machines"})
		if err != nil {
			t.Fatal(err)
		}
		schema, checked := editor(t, files), 0
		for name, text := range files {
			if strings.Contains(string(text), "<no value>") || strings.Contains(string(text), "{{.") {
				t.Errorf("%s has a gap", name)
			}
			if !strings.HasPrefix(name, "environments/staging/") && !strings.HasPrefix(name, "examples/") {
				continue
			}
			for _, one := range documents(t, text) {
				checked++
				if err := schema.Validate(one); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if checked < 9 {
			t.Errorf("only %d documents", checked)
		}
	}
}

// CI installs the version that created the repository, and not the newest one.
func TestPipelinesInstallTheirVersion(t *testing.T) {
	t.Parallel()
	for _, forge := range ci.Forges() {
		for version, want := range map[string]string{"v1.2.3": `GPUAAS_VERSION: "v1.2.3" # the version`, "": `GPUAAS_VERSION: "" # required: the version`} {
			files, err := scaffold.Files(scaffold.Options{Environment: "staging", Region: "eu-2", TrustDomain: "x.example", Forge: forge, Source: "machines", Version: version})
			if err != nil {
				t.Fatal(err)
			}
			path, _, _ := ci.File(forge)
			if text := string(files[path]); !strings.Contains(text, want) || strings.Contains(text, "@latest") {
				t.Errorf("%s with version %q:\n%s", forge, version, text)
			}
		}
	}
}

// TestEditorsFindMistakes: a schema that accepts everything would be none.
func TestEditorsFindMistakes(t *testing.T) {
	t.Parallel()
	files, err := scaffold.Files(scaffold.Options{Environment: "staging", Region: "eu-2", TrustDomain: "x.example", Forge: "github", Source: "machines"})
	if err != nil {
		t.Fatal(err)
	}
	schema := editor(t, files)
	node := string(files["examples/node.yaml"])
	for _, c := range [][2]string{
		{"cordoned: true", "cordoned: maybe"},
		{"gpus: 8", "gpus: eight"},
		{"sku: h100-sxm", "skuu: h100-sxm"},
		{"kind: Node", "kind: Nodes"},
		{"  region: eu-2\n", ""},
		{"apiVersion: gpuaas/v1alpha1\n", ""},
		{"cordoned: true", "onboarding: magic"},
	} {
		bad := strings.Replace(node, c[0], c[1], 1)
		if bad == node {
			t.Fatalf("%q is not in %s", c[0], node)
		}
		if schema.Validate(documents(t, []byte(bad))[0]) == nil {
			t.Errorf("%q instead of %q is accepted", c[1], c[0])
		}
	}
}
