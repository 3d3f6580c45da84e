package cli

import (
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestFirstAdminNeedsNoUser(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	if code, out, said := runs(t, url, "first-admin"); code == output.ExitOK || out != "" || !strings.Contains(said, "--email") {
		t.Errorf("without any administrator: exit %d\n%s%s", code, out, said)
	}
	code, out, said := runs(t, url, "--url", "https://gpuaas.example", "first-admin", "--email", "Root@example.org")
	if code != output.ExitOK || !strings.HasPrefix(out, "https://gpuaas.example/first-admin#gpa_") || !strings.Contains(said, "root@example.org") {
		t.Errorf("exit %d\n%s%s", code, out, said)
	}
	code, out, said = runs(t, url, "first-admin", "-o", "json")
	if code != output.ExitOK || said != "" || !strings.Contains(out, `"email": "root@example.org"`) {
		t.Errorf("the next: exit %d\n%s%s", code, out, said)
	}
	if code, _, said := runs(t, url, "first-admin", "--email", "no address"); code == output.ExitOK || !strings.Contains(said, "e-mail") {
		t.Errorf("no address: exit %d, %s", code, said)
	}
}
