package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/cli/people"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/audit"
)

// record is a database with sealed rows of a tenant and of the platform.
func record(t *testing.T) (url string, db *pgxpool.Pool, tenant ids.Tenant) {
	t.Helper()
	url, tenant = pgtest.URL(t), ids.New[ids.Tenant]()
	db, err := pg.Open(context.WithoutCancel(t.Context()), url, "test", 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if _, err := db.Exec(t.Context(), `INSERT INTO tenants (id, name) VALUES ($1, 'acme')`, tenant); err != nil {
		t.Fatal(err)
	}
	b := &pgx.Batch{}
	for _, of := range []ids.Tenant{tenant, {}, tenant} {
		audit.Queue(b, audit.Entry{Tenant: of, By: audit.By{Actor: "user:u"}, Action: "a.b", Target: "t"})
	}
	if err := db.SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
	return url, db, tenant
}

func seal(t *testing.T, db *pgxpool.Pool) {
	t.Helper()
	s := &audit.Service{DB: db}
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if err := s.Seal(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r, err := s.Verify(t.Context(), ids.Tenant{}, nil); err != nil || r.Unsealed == 0 {
			return
		}
	}
}

// runs executes one command line in process.
func runs(t *testing.T, url string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	a := console(t, map[string]string{"DATABASE_URL": url})
	a.Out, a.Err = &o, &e
	code = execute(t.Context(), a, args)
	return code, o.String(), e.String()
}

func TestAuditVerifyReportsThePosition(t *testing.T) {
	t.Parallel()
	url, db, tenant := record(t)
	if code, _, said := runs(t, url, "audit", "verify"); code != output.ExitOK || !strings.Contains(said, "3 rows newer than the last seal") {
		t.Errorf("before a seal: exit %d, %s", code, said)
	}
	seal(t, db)
	code, table, said := runs(t, url, "audit", "verify")
	if code != output.ExitOK || said != "" || strings.Count(table, "whole") != 2 || !strings.Contains(table, "acme         2      1") || !strings.Contains(table, "(platform)   1      1") {
		t.Errorf("exit %d\n%s%s", code, table, said)
	}
	_, document, _ := runs(t, url, "audit", "verify", "-o", "json")
	heads := filepath.Join(t.TempDir(), "heads.json")
	if err := os.WriteFile(heads, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, asked := range []string{"acme", tenant.String()} {
		if code, table, _ := runs(t, url, "audit", "verify", "--tenant", asked, "--heads", heads); code != output.ExitOK || strings.Count(table, "whole") != 1 {
			t.Errorf("%s: exit %d\n%s", asked, code, table)
		}
	}

	forge := func(sql string) {
		b := &pgx.Batch{}
		b.Queue(`SET LOCAL session_replication_role = replica`)
		b.Queue(sql)
		if err := pg.Commit(t.Context(), db, b, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	forge(`UPDATE audit_logs SET actor = 'user:v' WHERE org_id IS NOT NULL`)
	code, table, said = runs(t, url, "audit", "verify")
	if code != output.ExitFailure || !strings.Contains(table, "row_changed") || !strings.Contains(said, "Error: tenant acme: row 0") || !strings.Contains(said, "Code: findings") {
		t.Errorf("exit %d\n%s%s", code, table, said)
	}
	var found people.Chains
	code, document, _ = runs(t, url, "audit", "verify", "-o", "json")
	if err := json.Unmarshal([]byte(document), &found); err != nil || code != output.ExitFailure || found.Chains[1].Fault == nil || found.Chains[1].Name != "acme" {
		t.Errorf("exit %d, %v\n%s", code, err, document)
	}

	forge(`DELETE FROM audit_seals`)
	seal(t, db)
	if code, _, said := runs(t, url, "audit", "verify"); code != output.ExitOK {
		t.Errorf("the forgery does not fit: %s", said)
	}
	if code, _, said := runs(t, url, "audit", "verify", "--heads", heads); code != output.ExitFailure || !strings.Contains(said, "no seal leads to a stored head") {
		t.Errorf("exit %d, %s", code, said)
	}
}

// Threat: a stolen login of the workers records an export that never happened, and drops the month.
func TestAuditVerifyReadsTheArchive(t *testing.T) {
	t.Parallel()
	url, db, _ := record(t)
	exec := func(sql string) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	const month = `date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '8 months'`
	exec(`SELECT make_partition('audit_logs', ` + month + `)`)
	exec(`INSERT INTO audit_logs (id, at, actor, action, target_urn) SELECT id_floor(at), at, 'a', 'b', 'c' FROM (
		SELECT ` + month + ` + interval '3 days' * n AS at FROM generate_series(1, 2) n) AS two`)
	seal(t, db)
	folder := t.TempDir()
	if n, err := (&audit.Service{DB: db, Archive: folder}).ArchiveMonths(t.Context(), time.Now().AddDate(0, -3, 0)); n != 1 || err != nil {
		t.Fatalf("%d months, %v", n, err)
	}
	exec(`SELECT drop_partitions('audit_logs', now())`)
	verify := func(what string, exit int, want string, env map[string]string, args ...string) {
		t.Helper()
		var o, e bytes.Buffer
		env["DATABASE_URL"] = url
		a := console(t, env)
		a.Out, a.Err = &o, &e
		if code := execute(t.Context(), a, append([]string{"audit", "verify"}, args...)); code != exit || !strings.Contains(e.String(), want) {
			t.Errorf("%s: exit %d, %s", what, code, e.String())
		}
	}
	configured := map[string]string{"GPUAAS_AUDIT_ARCHIVE": folder}
	verify("no folder", output.ExitFailure, "no folder is configured", map[string]string{})
	verify("the folder of the environment", output.ExitOK, "", configured)
	verify("a named folder", output.ExitOK, "", map[string]string{}, "--archive", folder)
	verify("one tenant", output.ExitOK, "", map[string]string{}, "--tenant", "acme")
	twice := filepath.Join(folder, "audit-"+time.Now().UTC().AddDate(0, 0, 1-time.Now().UTC().Day()).AddDate(0, -8, 0).Format("2006-01")+".jsonl.gz")
	rewrite(t, db, twice)
	verify("a row twice instead of another", output.ExitFailure, "does not contain row", configured)
	if err := os.Remove(twice); err != nil {
		t.Fatal(err)
	}
	verify("a month without a file", output.ExitFailure, "does not exist", configured)
}

// rewrite writes the first row of a file of the archive twice, and records its hash, as a compromised worker can.
func rewrite(t *testing.T, db *pgxpool.Pool, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	packed, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(packed)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	var out bytes.Buffer
	again := gzip.NewWriter(&out)
	if _, err := again.Write([]byte(first + "\n" + first + "\n")); err != nil {
		t.Fatal(err)
	}
	sum := []byte{}
	if err := again.Close(); err == nil {
		digest := sha256.Sum256(out.Bytes())
		sum = digest[:]
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &pgx.Batch{}
	b.Queue(`SET LOCAL session_replication_role = replica`)
	b.Queue(`UPDATE audit_exports SET sha256 = $1`, sum)
	if err := pg.Commit(t.Context(), db, b, func() {}); err != nil {
		t.Fatal(err)
	}
}

func TestAuditVerifyRejects(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	empty := filepath.Join(t.TempDir(), "empty.json")
	if err := os.WriteFile(empty, []byte(`{"chains":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url  string
		args []string
		exit int
	}{
		"no database":            {"", nil, output.ExitNotFound},
		"a database that is off": {"postgres://127.0.0.1:1/x", nil, output.ExitFailure},
		"an unknown tenant":      {url, []string{"--tenant", "nobody"}, output.ExitNotFound},
		"no such file":           {url, []string{"--heads", empty + "x"}, output.ExitUsage},
		"a file without heads":   {url, []string{"--heads", empty}, output.ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if code, _, said := runs(t, c.url, append([]string{"audit", "verify"}, c.args...)...); code != c.exit {
				t.Errorf("exit %d, want %d: %s", code, c.exit, said)
			}
		})
	}
}
