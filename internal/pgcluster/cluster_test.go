package pgcluster_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
)

// start runs a cluster that ends with the test.
func start(t *testing.T, cfg pgcluster.Config) *pgcluster.Cluster {
	t.Helper()
	cluster, err := pgcluster.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(pgcluster.Immediate); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

func query(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	var text string
	if err := conn.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatal(err)
	}
	return text
}

func exec1(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// postgresIn counts processes that work in the data directory.
func postgresIn(t *testing.T, dir string) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skip("needs /proc")
	}
	for _, entry := range entries {
		cwd, err := os.Readlink("/proc/" + entry.Name() + "/cwd")
		if pid, errPid := strconv.Atoi(entry.Name()); err == nil && errPid == nil && cwd == filepath.Join(dir, "data") {
			pids = append(pids, pid)
		}
	}
	return pids
}

func postmaster(t *testing.T, dir string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// within polls until the condition is true.
func within(t *testing.T, d time.Duration, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(d); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", d, what)
		}
	}
}

func TestDurableSettingsHoldInTheServer(t *testing.T) {
	t.Parallel()
	cluster := start(t, pgcluster.Config{Dir: t.TempDir(), Durable: true, Params: map[string]string{"work_mem": "5MB"}})
	for name, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "data_checksums": "on",
		"TimeZone": "UTC", "server_encoding": "UTF8", "jit": "off", "max_connections": "60",
		"shared_buffers": "128MB", "listen_addresses": "", "work_mem": "5MB",
	} {
		if got := query(t, cluster.URL(), "SELECT current_setting('"+name+"')"); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
}

func TestDataOutlastsStopAndStart(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]pgcluster.Mode{"fast": pgcluster.Fast, "immediate": pgcluster.Immediate} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			first, err := pgcluster.Start(t.Context(), pgcluster.Config{Dir: dir, Durable: true})
			if err != nil {
				t.Fatal(err)
			}
			exec1(t, first.URL(), "CREATE TABLE stored AS SELECT 'yes' AS text")
			if err := first.Stop(mode); err != nil {
				t.Fatal(err)
			}
			if left := postgresIn(t, dir); len(left) != 0 {
				t.Errorf("still running after Stop: %v", left)
			}
			began := time.Now()
			second := start(t, pgcluster.Config{Dir: dir, Durable: true})
			t.Logf("warm start: %s", time.Since(began))
			if got := query(t, second.URL(), "SELECT text FROM stored"); got != "yes" {
				t.Errorf("stored = %q", got)
			}
		})
	}
}

func TestSecondStartNamesTheHolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start(t, pgcluster.Config{Dir: dir})
	_, err := pgcluster.Start(t.Context(), pgcluster.Config{Dir: dir})
	var coded *errs.Error
	if !errors.As(err, &coded) || coded.Code != errs.Conflict || coded.Details["pid"] != os.Getpid() {
		t.Fatalf("err = %v, want a conflict with process %d", err, os.Getpid())
	}
}

func TestLongPathsGetAShortSocket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	cluster := start(t, pgcluster.Config{Dir: dir})
	if got := query(t, cluster.URL(), "SELECT 'up'"); got != "up" {
		t.Errorf("got %q", got)
	}
}

// A checkout below /root, where the user postgres cannot walk.
func TestRootsPrivateFolderIsNoObstacle(t *testing.T) {
	t.Parallel()
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	cluster := start(t, pgcluster.Config{Dir: filepath.Join(closed, "cluster")})
	if got := query(t, cluster.URL(), "SELECT 'up'"); got != "up" {
		t.Errorf("got %q", got)
	}
}

func TestAnotherVersionsDataIsRejected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "data", "PG_VERSION")
	if err := os.WriteFile(file, []byte("9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := pgcluster.Start(t.Context(), pgcluster.Config{Dir: dir})
	if errs.CodeOf(err) != errs.Conflict || !strings.Contains(err.Error(), "PostgreSQL 9") {
		t.Fatalf("err = %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "9\n" {
		t.Errorf("the directory was touched: %q, %v", text, err)
	}
}

func TestMissingServerNamesThePackage(t *testing.T) {
	t.Setenv("GPUAAS_PG_BIN", t.TempDir())
	_, err := pgcluster.Find(t.Context())
	if errs.CodeOf(err) != errs.Unavailable || !strings.Contains(err.Error(), "package postgresql") {
		t.Fatalf("err = %v", err)
	}
}

func TestSupervisedServerComesBackOnTheSameSocket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cluster := start(t, pgcluster.Config{Dir: dir})
	ctx, cancel := context.WithCancel(t.Context())
	supervised := make(chan error, 1)
	go func() { supervised <- cluster.Supervise(ctx) }()
	exec1(t, cluster.URL(), "CREATE TABLE stored AS SELECT 'yes' AS text")
	exec1(t, cluster.URL(), "CHECKPOINT")

	for range 2 {
		dead := postmaster(t, dir)
		if err := syscall.Kill(dead, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		within(t, 10*time.Second, "answers again", func() bool {
			conn, err := pgx.Connect(t.Context(), cluster.URL())
			if err != nil {
				return false
			}
			defer conn.Close(context.WithoutCancel(t.Context()))
			var word string
			return conn.QueryRow(t.Context(), "SELECT text FROM stored").Scan(&word) == nil && postmaster(t, dir) != dead
		})
	}
	cancel()
	if err := <-supervised; err != nil {
		t.Error(err)
	}
}

// own starts a process of its own that owns a cluster in dir.
func own(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "PGCLUSTER_TEST_OWN="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "postgres://") {
		t.Fatalf("owner printed %q, %v", line, err)
	}
	return cmd
}

func TestKilledOwnerLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner := own(t, dir)
	if len(postgresIn(t, dir)) == 0 {
		t.Fatal("no server to orphan")
	}
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	began := time.Now()
	within(t, 8*time.Second, "no postgres works in "+dir, func() bool { return len(postgresIn(t, dir)) == 0 })
	t.Logf("gone after %s", time.Since(began))
}

func TestStartRightAfterAKilledOwner(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	owner := own(t, dir)
	// A postmaster that cannot end: the next start must get past it as well.
	if err := syscall.Kill(postmaster(t, dir), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := postmaster(t, dir)
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait()
	cluster := start(t, pgcluster.Config{Dir: dir})
	if got := query(t, cluster.URL(), "SELECT 'up'"); got != "up" || postmaster(t, dir) == stopped {
		t.Errorf("got %q from %d", got, postmaster(t, dir))
	}
}

// The pid in a stale file may have become anybody's, here this test's.
func TestStalePidFileIsNoObstacle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first, err := pgcluster.Start(t.Context(), pgcluster.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "data", "postmaster.pid")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(pgcluster.Fast); err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	if err := os.WriteFile(file, []byte(strconv.Itoa(os.Getpid())+"\n"+rest), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := start(t, pgcluster.Config{Dir: dir})
	if got := query(t, cluster.URL(), "SELECT 'up'"); got != "up" {
		t.Errorf("got %q", got)
	}
}
