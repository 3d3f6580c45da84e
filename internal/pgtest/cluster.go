package pgtest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
)

// prefix names the folders of test clusters.
const prefix = "gpuaas-pgtest-"

// durable is true after Durable.
var durable atomic.Bool

// Durable makes this process's cluster durable, because a server rejects a database that may lose
// commits. A package that starts a server calls it before the first test.
func Durable() { durable.Store(true) }

func begin(ctx context.Context) (*instance, error) {
	data, err := migrated(ctx)
	if err != nil {
		return nil, err
	}
	sweep()
	dir, err := os.MkdirTemp(roomy(), prefix)
	if err != nil {
		return nil, fmt.Errorf("making the cluster's folder: %w", err)
	}
	if err := watch(dir); err != nil {
		return nil, err
	}
	if err := duplicate(ctx, data, filepath.Join(dir, "data")); err != nil {
		return nil, err
	}
	params := map[string]string{"max_connections": "400"}
	if durable.Load() {
		maps.Copy(params, map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"})
	}
	cluster, err := pgcluster.Start(ctx, pgcluster.Config{Dir: dir, Params: params})
	if err != nil {
		return nil, err
	}
	in := &instance{cluster: cluster, url: cluster.URL()}
	if in.admin, err = pgx.Connect(ctx, in.url); err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	in.shared = sync.OnceValues(func() (*pgxpool.Pool, error) { return in.openShared(ctx) })
	return in, nil
}

// cloneSpace is the disk space for a few hundred clones. Containers often have a /dev/shm of only 64 MB.
const cloneSpace = 1 << 30

// roomy returns memory where there is enough of it, else the temporary folder.
func roomy() string {
	const memory = "/dev/shm"
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < cloneSpace {
		return os.TempDir()
	}
	if syscall.Access(memory, 2) != nil {
		return os.TempDir()
	}
	return memory
}

// abandoned is the age at which a folder without a lock counts as left over. A younger one may be
// in creation.
const abandoned = time.Minute

// sweep removes the folders of processes that were killed with their watchers.
func sweep() {
	dirs, _ := filepath.Glob(filepath.Join(roomy(), prefix+"*")) // a constant, well-formed pattern
	for _, dir := range dirs {
		st, err := os.Stat(dir)
		if err != nil || (clock.Clock{}).Now().Sub(st.ModTime()) < abandoned {
			continue
		}
		lock, err := os.Open(filepath.Join(dir, "lock"))
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir) // another process may be sweeping, too
		}
		_ = lock.Close()
	}
}
