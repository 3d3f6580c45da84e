package local

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/cli/output"
)

// TestConfigExplainsEveryDocumentedSetting compares the settings with docs/reference/configuration.md and with the flags
// of the server.
func TestConfigExplainsEveryDocumentedSetting(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	sections, _, _ := strings.Cut(string(text), "### Data of")
	named := regexp.MustCompile("`([A-Z][A-Z0-9_]+)")
	documented, mentioned := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(sections) {
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			mentioned[m[1]] = true
		}
		if start, _, found := strings.Cut(line, "`: "); found && strings.HasPrefix(line, "- `") {
			for _, m := range named.FindAllStringSubmatch(start, -1) {
				documented[m[1]] = true
			}
		}
	}
	delete(documented, "GPUAAS_VALIDATE_CHILD") // the program sets it for its own child
	shown := map[string]bool{"PORT": true}
	a := &output.Console{Env: func(name string) string { return map[string]string{"GPUAAS_CONFIG_DIR": t.TempDir()}[name] }}
	group := NewConfig(a)
	all, err := explained(a, group.Commands()[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		shown[e.Setting] = true
	}
	for _, name := range flagVariables {
		shown[name] = true
	}
	for name := range documented {
		if !shown[name] && !shown[strings.TrimSuffix(name, "_FILE")] {
			t.Errorf("%s is documented, and config explain does not list it", name)
		}
	}
	for name := range shown {
		if strings.ToUpper(name) == name && !mentioned[name] {
			t.Errorf("config explain lists %s, which docs/reference/configuration.md does not", name)
		}
	}
	flags := map[string]bool{}
	for _, m := range regexp.MustCompile(`--([a-z-]+)`).FindAllStringSubmatch(NewServer().LocalFlags().FlagUsages(), -1) {
		flags[m[1]] = true
	}
	if got := slices.Sorted(maps.Keys(flags)); !slices.Equal(got, serverFlagNames) {
		t.Errorf("the flags of the server are %v", got)
	}
}

// TestConfigExplainsSources sets one value from each source.
func TestConfigExplainsSources(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/config.yaml", []byte("current: dev\nprofiles:\n  dev: {url: 'http://stored', project: p1, token: gpk_stored}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{
		"GPUAAS_CONFIG_DIR": dir, "GPUAAS_PROJECT": "p2", "DATABASE_URL": "postgres://gpuaas:hunter2@db/gpuaas?password=hunter2",
		"STRIPE_SECRET_KEY": "sk_hunter2", "GPUAAS_GIT_TOKEN_FILE": "/run/token", "GPUAAS_CA": "vault",
	}
	a := &output.Console{Env: func(name string) string { return env[name] }}
	cmd := NewConfig(a).Commands()[0]
	if err := cmd.ParseFlags([]string{"--node-listen", ":9443"}); err != nil {
		t.Fatal(err)
	}
	all, err := explained(a, cmd)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range all {
		got[e.Setting] = strings.TrimSpace(e.Value + " " + e.Source)
		if strings.Contains(e.Value, "hunter2") || strings.Contains(e.Value, "gpk_") {
			t.Errorf("%s shows a secret: %s", e.Setting, e.Value)
		}
	}
	for name, want := range map[string]string{
		"GPUAAS_URL": "http://stored file", "GPUAAS_TOKEN": "(set) file", "GPUAAS_PROJECT": "p2 environment", "GPUAAS_OUTPUT": "table default",
		"node-listen": ":9443 flag", "listen": "127.0.0.1:8080 default", "DATABASE_URL": "postgres://gpuaas:xxxxx@db/gpuaas environment",
		"STRIPE_SECRET_KEY": "(set) environment", "GPUAAS_GIT_TOKEN": "(set) file", "GPUAAS_CA": "vault environment", "GPUAAS_KEK": "file default",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
}
