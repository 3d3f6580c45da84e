package cli

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/internal/pki"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/reseal"
	"github.com/gpuaas/gpuaas/platform/secret"
	"github.com/gpuaas/gpuaas/platform/secret/keystore"
)

// A server that runs on the same database reads each step, and no trusted key is removed before every
// node has acknowledged its successor.
func TestKeysAreRotatedWhileAServerRuns(t *testing.T) {
	t.Parallel()
	url, dir := pgtest.URL(t), t.TempDir()
	db, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	must(t, keystore.Prepare(t.Context(), keystore.Preparation{DB: db, StateDir: dir, Development: true, Signs: true, Log: slog.New(slog.DiscardHandler)}))
	server, err := keystore.OpenAll(t.Context(), keystore.Config{}, dir, db, clock.Clock{})
	must(t, err)
	notices := func() {
		t.Helper()
		if failed := server.Refresh(t.Context()); len(failed) > 0 {
			t.Fatal(failed)
		}
	}
	stamp := func() string {
		set, _ := server.Sets.Control()
		return secret.Stamp(server.Authority.Bundle(), set.TaskKeys, set.StatementKeys, set.RelayKeys)
	}
	// enrolled creates a certificate of the issuer for a node that has received the present trust state.
	enrolled := func(serial, issuer, used string) {
		t.Helper()
		_, err := db.Exec(t.Context(), `
			INSERT INTO certificates (serial, node_id, status, not_after, trust, issuer, used_at)
			VALUES ($1, '00000000-0000-7000-8000-000000000001', 'active', now() + interval '1 day', $2, $3, `+used+`)`,
			serial, stamp(), issuer)
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
	for _, of := range [][]string{{"ca", "rotate"}, {"keys", "rotate"}, {"keys", "rotate", "--of", "statements"}} {
		do := func(more ...string) (int, string, string) {
			return rotate(append(append([]string{}, of...), more...)...)
		}
		before := stamp()
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
		if now := stamp(); now == before {
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
	for _, of := range []string{"logins", "tokens", "cursors", "evidence"} {
		for _, step := range [][]string{{"begin"}, {"status"}, {"finish", "--force"}} {
			if code, out, said := rotate(append([]string{"keys", "rotate", "--of", of}, step...)...); code != output.ExitOK {
				t.Errorf("%s %s: exit %d\n%s%s", of, step, code, out, said)
			}
			if of != "logins" && step[0] == "begin" { // the newest key signs once every server has read it
				_, err := db.Exec(t.Context(), `UPDATE signing_keys SET created_at = created_at - interval '11 seconds'`)
				must(t, err)
			}
		}
		if code, _, said := rotate("keys", "rotate", "--of", of, "finish"); code == output.ExitOK || !strings.Contains(said, "--force") {
			t.Errorf("%s finish without waiting: exit %d, %s", of, code, said)
		}
	}
	notices()
	if n, m, c, e := len(server.Logins.Public()), len(server.Tokens.Kids()), len(server.Cursors.IDs()), len(server.Evidence.Public()); n != 1 || m != 1 || c != 1 || e != 1 {
		t.Errorf("%d keys sign logins, %d tokens, %d evidence, %d seal cursors", n, m, e, c)
	}
	// Each step has an audit row, and a bundle that is built later.
	const steps = 14
	for _, table := range []string{`audit_logs WHERE action LIKE '%.rotate_%'`, `evidence_bundles WHERE kind = 'key_rotation' AND status = 'pending' AND subject = ANY ('{authority,tasks,statements,logins,tokens,cursors,evidence}')`} {
		var rows int
		if err := db.QueryRow(t.Context(), `SELECT count(*) FROM `+table).Scan(&rows); err != nil || rows != steps {
			t.Errorf("%d rows of %s, %v", rows, table, err)
		}
	}
	if code, _, said := runs(t, url, "ca", "rotate", "status", "--state-dir", t.TempDir()); code == output.ExitOK || !strings.Contains(said, "kek.json does not exist") {
		t.Errorf("a folder without the key-encryption key: exit %d, %s", code, said)
	}
}

// The key-encryption key and the data keys rotate by command. A data key is not ended while a stored secret needs it.
func TestKeysAtRestAreRotated(t *testing.T) {
	t.Parallel()
	url, dir := pgtest.URL(t), t.TempDir()
	db, err := pgxpool.New(t.Context(), url)
	must(t, err)
	t.Cleanup(db.Close)
	kek := filepath.Join(dir, "deep", "kek.json")
	if code, _, text := runs(t, url, "keys", "create-kek", "--file", kek); code != output.ExitOK || !strings.Contains(text, "Store another copy") {
		t.Fatalf("create-kek: exit %d, %s", code, text)
	}
	if code, _, text := runs(t, url, "keys", "create-kek", "--file", kek); code == output.ExitOK || !strings.Contains(text, "exists") {
		t.Errorf("create-kek again: exit %d, %s", code, text)
	}
	state := filepath.Dir(kek)
	must(t, keystore.Prepare(t.Context(), keystore.Preparation{DB: db, StateDir: state, Signs: true, Log: slog.New(slog.DiscardHandler)}))
	rotate := func(of string, args ...string) (int, string) {
		code, out, text := runs(t, url, append(append([]string{"keys", "rotate"}, args...), "--of", of, "--state-dir", state)...)
		return code, out + text
	}
	for _, step := range []struct{ verb, want string }{{"begin", "Copy " + kek}, {"status", "seals"}, {"finish", "file-"}} {
		if code, text := rotate("kek", step.verb); code != output.ExitOK || !strings.Contains(text, step.want) {
			t.Errorf("kek %s: exit %d, %s", step.verb, code, text)
		}
	}
	keys, err := keystore.OpenAll(t.Context(), keystore.Config{}, state, db, clock.Clock{})
	must(t, err)
	must(t, seedSession(t, db, keys.Fields))
	if code, text := rotate("fields", "begin"); code != output.ExitOK || !strings.Contains(text, "1 stored secret is sealed with an old key") {
		t.Errorf("fields begin: exit %d, %s", code, text)
	}
	if code, text := rotate("fields", "finish"); code == output.ExitOK || !strings.Contains(text, "10 seconds after begin") {
		t.Errorf("fields finish at once: exit %d, %s", code, text)
	}
	_, err = db.Exec(t.Context(), `UPDATE signing_keys SET created_at = created_at - interval '11 seconds'`)
	must(t, err)
	if code, text := rotate("fields", "finish"); code == output.ExitOK || !strings.Contains(text, "1 stored secret is sealed with the old key") {
		t.Errorf("fields finish too early: exit %d, %s", code, text)
	}
	must(t, keys.Fields.Refresh(t.Context()))
	if n, err := (reseal.Service{Service: &identity.Service{DB: db, Seal: keys.Fields}}).Reseal(t.Context(), keys.Fields.Active(), 10); err != nil || n != 1 {
		t.Errorf("sealed %d again, %v", n, err)
	}
	if code, text := rotate("fields", "finish"); code != output.ExitOK || !strings.Contains(text, "0 stored secrets are sealed with an old key") {
		t.Errorf("fields finish: exit %d, %s", code, text)
	}
	if code, text := rotate("all", "begin"); code != output.ExitUsage || !strings.Contains(text, "kek") {
		t.Errorf("unknown keys: exit %d, %s", code, text)
	}
}

// seedSession stores a session with a sealed refresh token.
func seedSession(t *testing.T, db *pgxpool.Pool, seal identity.Sealer) error {
	t.Helper()
	id, user := ids.New[ids.Session](), ids.New[ids.User]()
	if _, err := db.Exec(t.Context(), `INSERT INTO users (id, oidc_subject, email, name, role) VALUES ($1, 's', 'a@dev.localhost', 'A', 'user')`, user); err != nil {
		return err
	}
	_, err := db.Exec(t.Context(), `
		INSERT INTO sessions (id, user_id, secret_hash, kind, issuer, address, user_agent, grant_enc, expires_at)
		VALUES ($1, $2, '\x00', 'browser', 'i', '', '', $3, now() + interval '1 hour')`, id, user, seal.Seal([]byte("refresh"), identity.GrantAt(id)))
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
