package cli

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/keystore"
)

// A server that runs on the same folder reads each step, and no trusted key is removed before every
// node has acknowledged its successor.
func TestKeysAreRotatedWhileAServerRuns(t *testing.T) {
	t.Parallel()
	url, dir := pgtest.URL(t), t.TempDir()
	db, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	local := keystore.Config{Authority: keystore.DriverLocal, Signer: keystore.DriverLocal}
	server, err := keystore.Open(t.Context(), local, dir, clock.Clock{})
	if err != nil {
		t.Fatal(err)
	}
	notices := func() {
		t.Helper()
		for _, refresh := range []error{server.Authority.Refresh(t.Context()), server.Signer.Refresh(t.Context()), server.Users.Refresh(t.Context())} {
			if refresh != nil {
				t.Fatal(refresh)
			}
		}
	}
	// enrolled creates a certificate of the issuer for a node that has received the present trust state.
	enrolled := func(serial, issuer, used string) {
		t.Helper()
		_, err := db.Exec(t.Context(), `
			INSERT INTO certificates (serial, node_id, status, not_after, trust, issuer, used_at)
			VALUES ($1, '00000000-0000-7000-8000-000000000001', 'active', now() + interval '1 day', $2, $3, `+used+`)`,
			serial, secret.Stamp(server.Authority.Bundle(), server.Signer.Public()), issuer)
		if err != nil {
			t.Fatal(err)
		}
	}
	// newest returns the issuer that is left after a finish.
	newest := func() string {
		all := server.Authority.(*pki.Local).Generations()
		return all[len(all)-1].Issuer
	}
	forget := func() {
		t.Helper()
		if _, err := db.Exec(t.Context(), `DELETE FROM certificates`); err != nil {
			t.Fatal(err)
		}
	}
	rotate := func(args ...string) (int, string, string) {
		return runs(t, url, append(args, "--state-dir", dir)...)
	}
	enrolled("01", newest(), "now()")
	for _, of := range [][]string{{"ca", "rotate"}, {"keys", "rotate"}} {
		do := func(more ...string) (int, string, string) {
			return rotate(append(append([]string{}, of...), more...)...)
		}
		before := secret.Stamp(server.Authority.Bundle(), server.Signer.Public())
		if code, out, said := do("begin"); code != output.ExitOK || !strings.Contains(said, "0 of 1 node") {
			t.Errorf("%s begin: exit %d\n%s%s", of, code, out, said)
		}
		if code, _, said := do("begin"); code == output.ExitOK || !strings.Contains(said, "under way") {
			t.Errorf("%s begin again: exit %d, %s", of, code, said)
		}
		if code, _, said := do("finish"); code == output.ExitOK || !strings.Contains(said, "1 node has not acknowledged") {
			t.Errorf("%s finish too early: exit %d, %s", of, code, said)
		}
		notices()
		if now := secret.Stamp(server.Authority.Bundle(), server.Signer.Public()); now == before {
			t.Errorf("%s: the server has noticed nothing", of)
		}
		// INV-65: the node has the new root with a certificate of the old authority, or was sent a new
		// certificate that it has not used.
		for why, c := range map[string][2]string{"of the old authority": {"aa", "now()"}, "not used": {newest(), "NULL"}} {
			forget()
			enrolled("02", c[0], c[1])
			if code, _, said := do("finish"); code == output.ExitOK || !strings.Contains(said, "1 node has not acknowledged") || !strings.Contains(said, "00000000-0000-7000-8000-000000000001") {
				t.Errorf("%s finish, the certificate is %s: exit %d, %s", of, why, code, said)
			}
		}
		forget()
		enrolled("02", newest(), "now()")
		if code, out, said := do("finish"); code != output.ExitOK || strings.Contains(out, "follows") {
			t.Errorf("%s finish: exit %d\n%s%s", of, code, out, said)
		}
		notices()
		if code, out, _ := do("status", "-o", "json"); code != output.ExitOK || !strings.Contains(out, `"behind": 1`) {
			t.Errorf("%s status: exit %d\n%s", of, code, out) // it trusts more than it should
		}
	}
	logins := []string{"keys", "rotate", "--of", "logins"}
	for _, step := range [][]string{{"begin"}, {"status"}, {"finish", "--force"}} {
		if code, out, said := rotate(append(append([]string{}, logins...), step...)...); code != output.ExitOK {
			t.Errorf("logins %s: exit %d\n%s%s", step, code, out, said)
		}
	}
	notices()
	if n := len(server.Users.Public()); n != 1 {
		t.Errorf("%d keys sign logins", n)
	}
	var audited int
	if err := db.QueryRow(t.Context(), `SELECT count(*) FROM audit_logs WHERE action LIKE '%.rotate_%'`).Scan(&audited); err != nil || audited != 6 {
		t.Errorf("%d audit rows, %v", audited, err)
	}
	if code, _, said := runs(t, url, "ca", "rotate", "status", "--state-dir", t.TempDir()); code == output.ExitOK || !strings.Contains(said, "contains no keys") {
		t.Errorf("a folder without keys: exit %d, %s", code, said)
	}
}
