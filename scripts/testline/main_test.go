package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The input is real: go test over packages that pass, fail, die and do not build.
func TestCount(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		line          string
		shows, spares []string
	}{
		"passing": {"3 passed, 0 failed, 1 skipped", []string{"ok "}, []string{"quiet words", "--- PASS"}},
		"failing": {"1 passed, 2 failed", []string{"--- FAIL: TestBad", "loud words", "FAIL"}, []string{"quiet words"}},
		"dying":   {"1 passed, 1 failed", []string{"panic: out of nothing"}, nil},
		"broken":  {"0 passed, 1 failed", []string{"undefined: nothing"}, nil},
		"stuck":   {"0 passed, 1 failed", []string{"SIGQUIT", "stuck.TestStuck"}, nil},
		"exiting": {"0 passed, 1 failed", []string{"FAIL"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), "go", "test", "-json", "-vet=off", "./"+name)
			cmd.Dir = filepath.Join("testdata", "samples")
			events, _ := cmd.Output() // most of the samples fail
			var out strings.Builder
			if got := count(strings.NewReader(string(events)), &out).String(); got != want.line {
				t.Errorf("got %q, want %q, from:\n%s", got, want.line, events)
			}
			for _, text := range want.shows {
				if !strings.Contains(out.String(), text) {
					t.Errorf("%q is not shown:\n%s", text, out.String())
				}
			}
			for _, text := range want.spares {
				if strings.Contains(out.String(), text) {
					t.Errorf("%q is shown:\n%s", text, out.String())
				}
			}
		})
	}
}
