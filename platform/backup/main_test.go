package backup_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/backup"
	"github.com/gpuaas/gpuaas/platform/backup/lsn"
	"github.com/gpuaas/gpuaas/platform/backup/manifest"
	"github.com/gpuaas/gpuaas/platform/backup/seal"
	"github.com/gpuaas/gpuaas/platform/backup/store/folder"
)

// TestMain is also the program of archive_command, and a backup and a restore that a test kills.
func TestMain(m *testing.M) {
	ctx := context.Background()
	switch {
	case os.Getenv("BACKUP_TEST_PUSH") != "":
		exit(push(ctx, os.Getenv("BACKUP_TEST_PUSH"), os.Args[1]))
	case os.Getenv("BACKUP_TEST_CREATE") != "":
		exit(createSlowly(ctx, os.Getenv("BACKUP_TEST_CREATE"), os.Getenv("BACKUP_TEST_URL")))
	case os.Getenv("BACKUP_TEST_RESTORE") != "":
		exit(restoreSlowly(ctx, os.Getenv("BACKUP_TEST_RESTORE"), os.Getenv("BACKUP_TEST_ID"), os.Getenv("BACKUP_TEST_TO")))
	}
	code := m.Run()
	if shared.site != nil {
		_ = shared.site.cluster.Stop(pgcluster.Immediate)
		_ = os.RemoveAll(shared.site.dir)
	}
	os.Exit(code)
}

func exit(err error) {
	if err != nil {
		_, _ = io.WriteString(os.Stderr, err.Error()+"\n")
		os.Exit(1)
	}
	os.Exit(0)
}

func push(ctx context.Context, dir, file string) error {
	server, err := serverOf(dir)
	if err != nil {
		return err
	}
	target, err := folder.Open(filepath.Join(dir, "target"))
	if err != nil {
		return err
	}
	return (&backup.Service{Store: target}).Push(ctx, file, server)
}

func serverOf(dir string) (seal.Server, error) {
	text, err := os.ReadFile(filepath.Join(dir, "server.key"))
	if err != nil {
		return seal.Server{}, err
	}
	return seal.ParseServer("key", text)
}

// site is a cluster that archives into a target, with a backup and a known history.
type site struct {
	dir      string
	cluster  *pgcluster.Cluster
	url      string
	db       *pgxpool.Pool
	server   seal.Server
	operator seal.Operator
	target   *folder.Store
	manifest manifest.Manifest
	// commits are the times after each commit: at commits[n] the table history has the rows 0 to n.
	commits []time.Time
	// creating is locked by tests that make a backup: of two at once, one fails.
	creating sync.Mutex
}

var shared struct {
	once sync.Once
	site *site
}

// commits before, and after the backup.
const before, after = 5, 40

// newSite starts the cluster once for all tests of the package.
func newSite(t *testing.T) *site {
	t.Helper()
	shared.once.Do(func() { shared.site = begin(t) })
	if shared.site == nil {
		t.Fatal("the cluster of the tests has not started")
	}
	return shared.site
}

func begin(t *testing.T) *site {
	t.Helper()
	// Not a folder of the test: it has the mode 0700, and PostgreSQL does not run as root.
	dir, err := os.MkdirTemp("", "gpuaas-backup-test-") //nolint:usetesting // outlives the first test
	check(t, err)
	check(t, os.Chmod(dir, 0o711))
	s := &site{dir: dir}
	server, operator, err := seal.Generate()
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "server.key"), []byte(server), 0o644))
	check(t, os.WriteFile(filepath.Join(dir, "operator.key"), []byte(operator), 0o600))
	s.server, err = seal.ParseServer("key", []byte(server))
	check(t, err)
	s.operator, err = seal.ParseOperator("identity", []byte(operator))
	check(t, err)
	program := filepath.Join(dir, "program")
	out, err := exec.CommandContext(t.Context(), "cp", os.Args[0], program).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"target", "target/tmp", "target/wal", "target/backups", "pg"} {
		check(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	s.cluster, s.url = pgtest.Own(t, filepath.Join(dir, "pg"), map[string]string{
		"archive_mode": "on", "archive_command": fmt.Sprintf("BACKUP_TEST_PUSH=%s %s %%p", dir, program),
	})
	s.giveTarget(t)
	s.target, err = folder.Open(filepath.Join(dir, "target"))
	check(t, err)
	s.db, err = pg.Open(context.WithoutCancel(t.Context()), s.url, "test", 8)
	check(t, err)
	s.fill(t)
	return s
}

// giveTarget makes the user of PostgreSQL the owner of the target.
func (s *site) giveTarget(t *testing.T) {
	t.Helper()
	info, err := os.Stat(filepath.Join(s.dir, "pg", "data"))
	check(t, err)
	as := info.Sys().(*syscall.Stat_t)
	for _, name := range []string{"target", "target/tmp", "target/wal", "target/backups"} {
		check(t, os.Chown(filepath.Join(s.dir, name), int(as.Uid), int(as.Gid)))
	}
}

// fill commits rows, makes the backup in between, and waits until all WAL is archived.
func (s *site) fill(t *testing.T) {
	t.Helper()
	s.exec(t, `CREATE TABLE history (n int PRIMARY KEY, filler text)`)
	for range before {
		s.commit(t)
	}
	var err error
	s.manifest, err = s.service().Create(t.Context(), s.config())
	check(t, err)
	for n := range after {
		s.commit(t)
		if n%5 == 4 {
			s.exec(t, `SELECT pg_switch_wal()`)
		}
	}
	s.archive(t)
}

func (s *site) service() *backup.Service {
	return &backup.Service{Store: s.target, Log: slog.New(slog.DiscardHandler)}
}

func (s *site) config() backup.CreateConfig {
	return backup.CreateConfig{URL: s.url, DB: s.db, Server: s.server, Environment: "production", WaitWAL: time.Hour}
}

func (s *site) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := s.db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// commit inserts one row, and sometimes deletes and updates none: the history is the set of rows.
func (s *site) commit(t *testing.T) {
	t.Helper()
	s.exec(t, `INSERT INTO history VALUES ($1, repeat('x', $2))`, len(s.commits), 1+rand.IntN(20_000))
	var at time.Time
	// The next commit has another time, also with a clock of few digits.
	check(t, s.db.QueryRow(t.Context(), `SELECT clock_timestamp() FROM pg_sleep(0.002)`).Scan(&at))
	check(t, s.db.QueryRow(t.Context(), `SELECT $1::timestamptz FROM pg_sleep(0.002)`, at).Scan(&at))
	s.commits = append(s.commits, at)
}

// archive waits until the target has all WAL up to now.
func (s *site) archive(t *testing.T) {
	t.Helper()
	var position string
	check(t, s.db.QueryRow(t.Context(), `SELECT pg_switch_wal()::text`).Scan(&position))
	at, err := lsn.Parse(position)
	check(t, err)
	name := lsn.Name(s.manifest.Timeline, (at - 1).Number(s.manifest.SegmentBytes), s.manifest.SegmentBytes)
	eventually(t, "segment "+name+" is archived", func() bool {
		_, err := os.Stat(filepath.Join(s.walFolder(), name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// eventually calls done until it is true, and fails after a time that no slow computer needs.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it never happens: %s", what)
		}
	}
}

func (s *site) walFolder() string {
	return filepath.Join(s.dir, "target", "wal", fmt.Sprint(s.manifest.System))
}

// copied is a service with its own copy of the target, which a test may damage, and the folder of the copy.
func (s *site) copied(t *testing.T) (*backup.Service, string) {
	t.Helper()
	dir := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "backups"), 0o700))
	// Only the files that never disappear: tests at the same time write temporary files, and make other backups.
	for from, to := range map[string]string{"wal": "", "backups/" + s.manifest.ID: "backups"} {
		if out, err := exec.CommandContext(t.Context(), "cp", "-R", filepath.Join(s.dir, "target", from), filepath.Join(dir, to)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	target, err := folder.Open(dir)
	check(t, err)
	return &backup.Service{Store: target, Log: slog.New(slog.DiscardHandler)}, dir
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rows returns the numbers in the table history of a restored folder.
func (s *site) rows(t *testing.T, dir string) (numbers []int32) {
	t.Helper()
	cluster, err := pgcluster.Start(t.Context(), pgcluster.Config{Dir: dir, Params: map[string]string{"archive_mode": "off"}})
	check(t, err)
	defer func() { check(t, cluster.Stop(pgcluster.Immediate)) }()
	db, err := pg.Open(t.Context(), strings.Replace(cluster.URL(), "/postgres?", "/"+s.manifest.Database+"?", 1), "test", 1)
	check(t, err)
	defer db.Close()
	check(t, db.QueryRow(t.Context(), `SELECT array_agg(n ORDER BY n) FROM history`).Scan(&numbers))
	return numbers
}
