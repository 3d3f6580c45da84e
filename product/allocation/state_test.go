package allocation_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/product/allocation"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// INV-04: all 35 pairs, as drawn. The diagram is generated from the table, so that a review displays each
// change of the state machine.
func TestINV04Diagram(t *testing.T) {
	t.Parallel()

	var b strings.Builder
	b.WriteString("stateDiagram-v2\n    [*] --> requested\n")
	for _, s := range allocation.States() {
		ends := true
		for _, e := range allocation.Triggers() {
			if to, err := allocation.Next(s, e); err == nil {
				fmt.Fprintf(&b, "    %s --> %s: %s\n", s, to, e)
				ends = false
			}
		}
		if ends {
			fmt.Fprintf(&b, "    %s --> [*]\n", s)
		}
	}
	golden(t, "testdata/state.mmd", b.String())
}

// golden compares with a file that is read in review.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s has changed; run with -update and read the difference:\n%s", path, diff)
	}
}

// Every state can end: from each there is a way to a state that has no way on.
func TestEveryStateCanEnd(t *testing.T) {
	t.Parallel()

	for _, s := range allocation.States() {
		if !canEnd(s, map[allocation.State]bool{}) {
			t.Errorf("%s never ends", s)
		}
	}
}

func canEnd(s allocation.State, seen map[allocation.State]bool) bool {
	if seen[s] {
		return false
	}
	seen[s] = true
	final := true
	for _, e := range allocation.Triggers() {
		if to, err := allocation.Next(s, e); err == nil {
			final = false
			if canEnd(to, seen) {
				return true
			}
		}
	}
	return final
}
