package docs

import (
	"regexp"
	"strings"
	"testing"
)

var (
	variable = regexp.MustCompile(`"((?:GPUAAS_[A-Z_]+|DATABASE_URL|NATS_URL|PORT|XDG_CONFIG_HOME|NO_COLOR|CI|CREDENTIALS_DIRECTORY|OTEL_EXPORTER_OTLP_ENDPOINT))"`)
	require  = regexp.MustCompile(`(?m)^\t(\S+) (v\S+)$`)
)

// TestVariablesAreWritten: an environment variable that code reads is documented.
func TestVariablesAreWritten(t *testing.T) {
	t.Parallel()
	text := read(t, "docs/reference/configuration.md")
	found := 0
	for _, source := range sources(t) {
		for _, match := range variable.FindAllStringSubmatch(source, -1) {
			found++
			if !strings.Contains(text, "`"+match[1]) {
				t.Errorf("%s is read, and docs/reference/configuration.md does not document it", match[1])
			}
		}
	}
	if found < 10 {
		t.Fatalf("only %d variables found: this test reads nothing", found)
	}
}

// TestModulesAreWritten: each module that go.mod requires by name is listed with its version.
func TestModulesAreWritten(t *testing.T) {
	t.Parallel()
	text := read(t, "docs/dependencies.md")
	found := 0
	for _, match := range require.FindAllStringSubmatch(read(t, "go.mod"), -1) {
		found++
		if !strings.Contains(text, "`"+match[1]+"` | "+match[2]+" |") {
			t.Errorf("%s %s is not in docs/dependencies.md", match[1], match[2])
		}
	}
	if found < 20 {
		t.Fatalf("only %d modules found: this test reads nothing", found)
	}
}

// TestDiagramIsCopied: the drawing of the states is the one that the test of the state machine makes.
func TestDiagramIsCopied(t *testing.T) {
	t.Parallel()
	if !strings.Contains(read(t, "docs/architecture.md"), "```mermaid\n"+read(t, "product/allocation/testdata/state.mmd")+"```") {
		t.Error("docs/architecture.md draws other states than product/allocation/testdata/state.mmd: copy it")
	}
}
