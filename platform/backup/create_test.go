package backup_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/backup"
	"github.com/gpuaas/gpuaas/platform/backup/store"
	"github.com/gpuaas/gpuaas/platform/backup/store/folder"
)

// slow reports the first bytes of a file, and then waits.
type slow struct{ store.Store }

func (s slow) Put(ctx context.Context, name string, write func(io.Writer) error) error {
	return s.Store.Put(ctx, name, func(w io.Writer) error { return write(waiting{w}) })
}

type waiting struct{ io.Writer }

func (w waiting) Write(p []byte) (int, error) {
	if _, err := w.Writer.Write(p); err != nil {
		return 0, err
	}
	_, _ = io.WriteString(os.Stdout, "writing\n")
	select {} // until the test kills this process
}

func createSlowly(ctx context.Context, dir, url string) error {
	server, err := serverOf(dir)
	if err != nil {
		return err
	}
	target, err := folder.Open(filepath.Join(dir, "target"))
	if err != nil {
		return err
	}
	db, err := pg.Open(ctx, url, "test", 4)
	if err != nil {
		return err
	}
	_, err = (&backup.Service{Store: slow{target}}).Create(ctx, backup.CreateConfig{URL: url, DB: db, Server: server, Environment: "production", WaitWAL: time.Hour})
	return err
}

// TestAKilledBackupIsInvisible: the next one runs, since the session of the killed one has lost the lock.
func TestAKilledBackupIsInvisible(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.creating.Lock()
	defer s.creating.Unlock()
	had := s.count(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "BACKUP_TEST_CREATE="+s.dir, "BACKUP_TEST_URL="+s.url)
	out, err := cmd.StdoutPipe()
	check(t, err)
	cmd.Stderr = os.Stderr
	check(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if line != "writing\n" {
		t.Fatalf("the process printed %q, %v", line, err)
	}
	if _, err := s.service().Create(t.Context(), s.config()); errs.CodeOf(err) != errs.Conflict || !strings.Contains(err.Error(), "another backup") {
		t.Errorf("a second backup at once: %v", err)
	}
	check(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if n := s.count(t); n != had {
		t.Errorf("%d backups after the kill, and %d before", n, had)
	}
	// The server notices the end of the session when it sends the next bytes.
	eventually(t, "the lock of the killed backup is free", func() bool {
		_, err = s.service().Create(t.Context(), s.config())
		return errs.CodeOf(err) != errs.Conflict
	})
	check(t, err)
	if n := s.count(t); n != had+1 {
		t.Errorf("%d backups after the next one, and %d before", n, had)
	}
}

// count returns the number of complete backups. All of them are valid.
func (s *site) count(t *testing.T) int {
	t.Helper()
	all, err := s.service().List(t.Context(), s.operator.Verifier)
	check(t, err)
	for _, one := range all {
		check(t, one.Fault)
	}
	return len(all)
}

// TestABackupWaitsForItsWAL: without the archive there is no backup.
func TestABackupWaitsForItsWAL(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.creating.Lock()
	defer s.creating.Unlock()
	other, err := folder.Open(t.TempDir())
	check(t, err)
	c := s.config()
	c.WaitWAL = time.Nanosecond
	service := &backup.Service{Store: other}
	_, err = service.Create(t.Context(), c)
	if errs.CodeOf(err) != errs.Unavailable || !strings.Contains(err.Error(), s.manifest.Segments[0][:16]) {
		t.Errorf("%v", err)
	}
	all, err := service.List(t.Context(), s.operator.Verifier)
	if err != nil || len(all) != 0 {
		t.Errorf("%d backups, %v", len(all), err)
	}
}
