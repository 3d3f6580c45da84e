package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestARestoreIsMarkedComparedAndConfirmed(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	expect := func(exit int, text string, args ...string) {
		t.Helper()
		code, out, said := runs(t, url, append([]string{"restore"}, args...)...)
		if code != exit || !strings.Contains(out+said, text) {
			t.Errorf("%v: exit %d, want %d and %q\n%s%s", args, code, exit, text, out, said)
		}
	}
	expect(output.ExitOK, "never restored", "status")
	expect(output.ExitUsage, "--at", "begin")
	expect(output.ExitUsage, "--at", "begin", "--at", "yesterday")
	expect(output.ExitUsage, "in the future", "begin", "--at", time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	at := time.Now().UTC().Format(time.RFC3339)
	expect(output.ExitOK, "All sessions have ended", "begin", "--at", at, "--backup", "snap-1")
	expect(output.ExitOK, `"backup_id": "snap-1"`, "status", "-o", "json")
	expect(output.ExitOK, "0 of 0 nodes have reported; 0 differences", "status")
	expect(output.ExitOK, `"backup_id": "snap-2"`, "begin", "--at", at, "--backup", "snap-2", "--replace", "-o", "json")
	for _, change := range [][]string{{"keys", "rotate", "begin"}, {"agent", "retry", "1.0.0"}} {
		if code, _, said := runs(t, url, change...); code == output.ExitOK || !strings.Contains(said, "gpuaas restore confirm") {
			t.Errorf("%v before the confirmation: exit %d\n%s", change, code, said)
		}
	}
	if code, _, said := runs(t, url, "agent", "list"); code != output.ExitOK {
		t.Errorf("a read before the confirmation: exit %d\n%s", code, said)
	}
	expect(output.ExitUsage, "--yes", "confirm", "--no-input")
	expect(output.ExitOK, "Confirmed", "confirm", "--yes")
	expect(output.ExitOK, "was confirmed before", "confirm", "--yes")
	expect(output.ExitOK, "is confirmed", "status")
}
