package backup

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestARestoredDatabaseIsMarked runs the commands of the guide: the servers of the restored database start in restore mode.
func TestARestoredDatabaseIsMarked(t *testing.T) {
	t.Parallel()
	// Not a folder of the test: it has the mode 0700, and PostgreSQL does not run as root.
	dir, err := os.MkdirTemp("", "gpuaas-backup-cli-") //nolint:usetesting // the reason above
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	check(t, errors.Join(os.Chmod(dir, 0o711), os.Mkdir(filepath.Join(dir, "pg"), 0o755)))
	cluster, url := pgtest.Own(t, filepath.Join(dir, "pg"), nil)
	t.Cleanup(func() { _ = cluster.Stop(pgcluster.Immediate) })
	db, err := pg.Open(t.Context(), url, "test", 1)
	check(t, err)
	t.Cleanup(db.Close)
	_, err = db.Exec(t.Context(), `SELECT pg_create_physical_replication_slot('cli', true)`)
	check(t, err)
	keys := keygen(t)
	env := map[string]string{
		"DATABASE_URL": url, "GPUAAS_OUTPUT": "json", targetVariable: "file://" + t.TempDir(),
		keyVariable: filepath.Join(keys, serverName), identityVariable: filepath.Join(keys, operatorName),
	}
	ctx, stop := context.WithCancel(t.Context())
	received := make(chan error, 1)
	go func() {
		_, err := runIn(ctx, env, "wal-receive", "--spool", filepath.Join(dir, "spool"), "--slot", "cli")
		received <- err
	}()
	out, err := run(t, env, "create", "--environment", "production")
	stop()
	if err := <-received; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	check(t, err)
	var made struct{ Items []struct{ ID string } }
	if err := json.Unmarshal([]byte(out), &made); err != nil || len(made.Items) != 1 {
		t.Fatalf("%q, %v", out, err)
	}
	to := filepath.Join(dir, "restored")
	out, err = run(t, env, "restore", made.Items[0].ID, "--to", to)
	if err != nil || !strings.Contains(out, `"marked": true`) || !strings.Contains(out, "gpuaas restore confirm") {
		t.Fatalf("%q, %v", out, err)
	}
	restored, err := pgcluster.Start(t.Context(), pgcluster.Config{Dir: to})
	check(t, err)
	defer func() { check(t, restored.Stop(pgcluster.Immediate)) }()
	copied, err := pg.Open(t.Context(), strings.Replace(restored.URL(), "/postgres?", "/"+db.Config().ConnConfig.Database+"?", 1), "test", 1)
	check(t, err)
	defer copied.Close()
	var id, by string
	var at time.Time
	check(t, copied.QueryRow(t.Context(), `SELECT backup_id, by, restored_to FROM restores WHERE confirmed_at IS NULL`).Scan(&id, &by, &at))
	if id != made.Items[0].ID || !strings.HasPrefix(by, "local:") || time.Since(at) > time.Hour {
		t.Errorf("the mark has backup %q, by %q, at %s", id, by, at)
	}
}
