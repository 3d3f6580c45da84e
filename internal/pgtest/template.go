package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/migrations"
)

// template is the migrated database that clones are made from.
const template = "gpuaas_template"

// migrated returns a data directory with the migrated template. The first process with this schema
// creates it in 1.5 s; later ones find it in 0.1 s.
func migrated(ctx context.Context) (string, error) {
	base := filepath.Join(os.TempDir(), prefix+"cache-"+strconv.Itoa(os.Getuid()))
	if err := own(base); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(filepath.Join(base, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", fmt.Errorf("opening the template's lock: %w", err)
	}
	defer func() { _ = lock.Close() }()
	// Packages are tested side by side; one makes the template, the others wait.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("waiting for the template: %w", err)
	}
	key, err := keyOf(ctx)
	if err != nil {
		return "", err
	}
	done := filepath.Join(base, key)
	if _, err := os.Stat(done); err == nil {
		return filepath.Join(done, "data"), nil
	}
	forget(base)
	return filepath.Join(done, "data"), build(ctx, base, done)
}

// keyOf names everything that the template is made of.
func keyOf(ctx context.Context) (string, error) {
	bin, err := pgcluster.Find(ctx)
	if err != nil {
		return "", err
	}
	hash, err := migrations.Hash()
	if err != nil {
		return "", err
	}
	river, err := rivermigrate.New(riverpgxv5.New(nil), nil)
	if err != nil {
		return "", fmt.Errorf("reading River's migrations: %w", err)
	}
	return fmt.Sprintf("pg%d-%s-river%d", bin.Major, hash, len(river.AllVersions())), nil
}

// own rejects a cache folder that belongs to another user.
func own(base string) error {
	if err := os.Mkdir(base, 0o700); err != nil && !os.IsExist(err) {
		return fmt.Errorf("making the template's folder: %w", err)
	}
	st, err := os.Lstat(base)
	if err != nil {
		return fmt.Errorf("looking at the template's folder: %w", err)
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !ok || int(sys.Uid) != os.Getuid() || !st.IsDir() {
		return fmt.Errorf("%s belongs to another user", base)
	}
	return nil
}

func build(ctx context.Context, base, done string) error {
	fresh := filepath.Join(base, "building")
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("removing an unfinished template: %w", err)
	}
	cluster, err := pgcluster.Start(ctx, pgcluster.Config{Dir: fresh})
	if err != nil {
		return err
	}
	err = fill(ctx, cluster.URL())
	if stopped := cluster.Stop(pgcluster.Fast); err == nil {
		err = stopped
	}
	if err != nil {
		return fmt.Errorf("making the template: %w", err)
	}
	if err := os.Rename(fresh, done); err != nil {
		return fmt.Errorf("placing the template: %w", err)
	}
	return nil
}

func fill(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connecting: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+template); err != nil {
		return fmt.Errorf("creating the template: %w", err)
	}
	pool, err := pg.Open(ctx, strings.Replace(url, "/postgres?", "/"+template+"?", 1), "template", 4)
	if err != nil {
		return err
	}
	defer pool.Close()
	return migrations.Up(ctx, pool)
}

// outdated is the age at which a template of another schema is removed. Two branches with different
// schemas may be under test.
const outdated = 24 * time.Hour

func forget(base string) {
	entries, _ := os.ReadDir(base) // what cannot be read is not forgotten
	for _, entry := range entries {
		st, err := entry.Info()
		if err == nil && entry.IsDir() && (clock.Clock{}).Now().Sub(st.ModTime()) > outdated {
			_ = os.RemoveAll(filepath.Join(base, entry.Name()))
		}
	}
}

// duplicate copies a data directory with its owners. cp does it in 50 ms.
func duplicate(ctx context.Context, from, to string) error {
	if out, err := exec.CommandContext(ctx, "cp", "-pR", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copying the template: %w: %s", err, out)
	}
	return nil
}
