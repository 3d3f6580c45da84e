package pgtest_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

const insert = `INSERT INTO tenants (id, name, created_at) VALUES ($1, $2, '2026-01-02T03:04:05Z')`

const (
	id1 = "01990000-0000-7000-8000-000000000001"
	id2 = "01990000-0000-7000-8000-000000000002"
)

func exec1(t *testing.T, db pg.Queryer, sql string, args ...any) {
	t.Helper()
	if _, err := db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func tenants(t *testing.T, db pg.Queryer) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), "SELECT count(*) FROM tenants").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestClonesShareNothing(t *testing.T) {
	t.Parallel()
	began := time.Now()
	a, b := pgtest.Clone(t), pgtest.Clone(t)
	exec1(t, a, insert, id1, "one")
	t.Logf("two clones: %s", time.Since(began))
	if tenants(t, a) != 1 || tenants(t, b) != 0 {
		t.Error("a row of one clone is in the other")
	}
}

func TestTxLeavesNothing(t *testing.T) {
	t.Parallel()
	for range 2 { // the second would fail on the first's row
		t.Run("insert", func(t *testing.T) {
			tx := pgtest.Tx(t)
			exec1(t, tx, insert, id1, "one")
			if tenants(t, tx) != 1 {
				t.Error("the transaction does not see its own row")
			}
		})
	}
}

func TestDatabaseIsDroppedWithItsTest(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("clone", func(t *testing.T) { url = pgtest.URL(t) })
	pool, err := pg.Open(t.Context(), url, "test", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := pool.Ping(t.Context()); err == nil {
		t.Errorf("%s is still there", url)
	}
}

func TestDiffShowsExactlyWhatChanged(t *testing.T) {
	t.Parallel()
	tx := pgtest.Tx(t)
	exec1(t, tx, insert, id1, "one")
	diff := pgtest.Diff(t, tx, pgtest.MaskTimes(), pgtest.MaskIDs(), pgtest.Mask("currency"))
	if got := diff(); got != "" {
		t.Errorf("nothing changed, but:\n%s", got)
	}
	exec1(t, tx, "UPDATE tenants SET name = 'uno'")
	exec1(t, tx, insert, id2, "two")
	exec1(t, tx, "INSERT INTO projects (id, org_id, name, created_at) VALUES ($1, $1, 'p', '2026-01-02T03:04:05.678Z')", id1)
	want := `+ projects created_at=<time> description="" id="<id 1>" name="p" org_id="<id 1>" version=1
~ tenants id="<id 1>": name: "one" → "uno"
+ tenants created_at=<time> currency=… id="<id 2>" name="two" version=1
`
	if d := cmp.Diff(want, diff()); d != "" {
		t.Error(d)
	}
	exec1(t, tx, "DELETE FROM projects")
	exec1(t, tx, "DELETE FROM tenants")
	if got, want := diff(), "- tenants created_at=<time> currency=… id=\"<id 1>\" name=\"one\" version=1\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// folders lists the folders of test clusters.
func folders(t *testing.T) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, base := range []string{"/dev/shm", os.TempDir()} {
		dirs, err := filepath.Glob(filepath.Join(base, "gpuaas-pgtest-*", "lock"))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range dirs {
			found[filepath.Dir(dir)] = true
		}
	}
	return found
}

// TestOwnedByVictim is the process that the next test kills.
func TestOwnedByVictim(t *testing.T) {
	t.Parallel()
	if os.Getenv("PGTEST_VICTIM") == "" {
		return // this test must not kill its own process
	}
	url := pgtest.URL(t)
	if _, err := os.Stdout.WriteString("up " + url + "\n"); err != nil {
		t.Fatal(err)
	}
	select {}
}

func TestKilledProcessLeavesNothing(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestOwnedByVictim$")
	cmd.Env = append(os.Environ(), "PGTEST_VICTIM=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var dir string
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if _, url, ok := strings.Cut(lines.Text(), "host="); ok {
			dir = filepath.Dir(strings.ReplaceAll(url, "%2F", "/"))
			break
		}
	}
	if !folders(t)[dir] {
		t.Fatalf("the victim's folder %q is not there", dir)
	}
	pid, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	line, _, _ := strings.Cut(string(pid), "\n")
	if _, err := strconv.Atoi(line); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for folders(t)[dir] || running(line) {
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%s or process %s is still there", dir, line)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("gone after %s", time.Since(began))
}

// running reports whether the process runs. A zombie that init has not reaped has no working
// folder.
func running(pid string) bool {
	_, err := os.Readlink("/proc/" + pid + "/cwd")
	return err == nil
}

func BenchmarkClone(b *testing.B) {
	pgtest.URL(b)
	ctx := context.WithoutCancel(b.Context())
	for b.Loop() {
		pool, err := pg.Open(ctx, pgtest.URL(b), "bench", 1)
		if err != nil {
			b.Fatal(err)
		}
		pool.Close()
	}
}
