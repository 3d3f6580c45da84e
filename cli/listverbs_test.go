package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/clock"
)

// listArguments are the arguments of list verbs that need some.
var listArguments = map[string][]string{
	"gpuaas service-account list": {"--project", "default"},
	"gpuaas agent list":           nil, // reads the database
	"gpuaas backup list":          nil, // reads a target; cli/backup tests it
}

// TestListVerbsKnowWideAndYAML runs each list verb with both outputs.
func TestListVerbsKnowWideAndYAML(t *testing.T) {
	t.Parallel()

	f, server := newFake(t)
	defer server.Close()
	_ = f
	run := func(args ...string) (int, string, string) {
		var out, failed bytes.Buffer
		a := console(t, map[string]string{"GPUAAS_URL": server.URL, "GPUAAS_TOKEN": goodToken})
		a.In, a.Out, a.Err, a.Clock = strings.NewReader(""), &out, &failed, clock.Clock{}
		return execute(t.Context(), a, args), out.String(), failed.String()
	}
	verbs := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(sub)
		}
		more, listed := listArguments[c.CommandPath()]
		if c.Name() != "list" || listed && more == nil {
			return
		}
		verbs++
		args := append(strings.Fields(c.CommandPath())[1:], more...)
		code, table, failed := run(args...)
		if code != output.ExitOK {
			t.Errorf("%s: exit %d: %s", c.CommandPath(), code, failed)
			return
		}
		head := func(text string) int { return len(strings.Fields(strings.SplitN(text, "\n", 2)[0])) }
		if code, wide, failed := run(append(args, "-o", "wide")...); code != output.ExitOK || head(wide) < head(table) {
			t.Errorf("%s -o wide: exit %d\n%s%s", c.CommandPath(), code, wide, failed)
		}
		code, text, failed := run(append(args, "-o", "yaml")...)
		var document struct{ Items []any }
		if err := yaml.Unmarshal([]byte(text), &document); code != output.ExitOK || err != nil || document.Items == nil {
			t.Errorf("%s -o yaml: exit %d, %v\n%s%s", c.CommandPath(), code, err, text, failed)
		}
	}
	visit(newRoot(console(t, nil)))
	if verbs < 15 {
		t.Errorf("only %d list verbs", verbs)
	}
}
