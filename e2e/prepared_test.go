//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgcluster"
	"github.com/gpuaas/gpuaas/migrations"
)

// migrated creates a data directory of PostgreSQL with the present schema, once. A copy of it replaces initdb and the
// migrations of a first start, which would need more CPU time than the rest of it.
var migrated = sync.OnceValues(func() (data string, err error) {
	ctx, dir := context.Background(), filepath.Join(bins, "migrated")
	cluster, err := pgcluster.Start(ctx, pgcluster.Config{Dir: dir, Durable: true})
	if err != nil {
		return "", err
	}
	err = migrate(ctx, cluster.URL())
	if stopped := cluster.Stop(pgcluster.Fast); err == nil {
		err = stopped
	}
	return filepath.Join(dir, "data"), err
})

func migrate(ctx context.Context, url string) error {
	pool, err := pg.Open(ctx, url, "e2e", 4)
	if err != nil {
		return err
	}
	defer pool.Close()
	return migrations.Up(ctx, pool)
}

// declare adds a policy to the fleet.
func (h *installation) declare(t testing.TB, name, key string, value int) {
	t.Helper()
	policy := fmt.Sprintf("policies: [\n\t_policy & {\n\t\tmetadata: name: %q\n\t\tspec: {key: %q, value: %d}\n\t},", name, key, value)
	edit(t, filepath.Join(h.repo, "environments", "dev", "policies.cue"), "policies: [", policy)
	commit(t, h.repo, "policy "+name)
}

// unlimited raises the limits of requests, which a test with many kills and polls would otherwise wait for.
func (h *installation) unlimited(t testing.TB) {
	t.Helper()
	h.declare(t, "user-limit", "ratelimit.user_per_minute", 100_000)
	h.declare(t, "write-limit", "ratelimit.mutation_per_minute", 100_000)
	h.declare(t, "burst", "ratelimit.burst", 10_000)
}

// prepare gives a new installation its database.
func (h *installation) prepare() {
	h.t.Helper()
	postgres := filepath.Join(h.data(), "postgres")
	if _, err := os.Stat(postgres); err == nil || h.empty {
		return
	}
	data, err := migrated()
	must(h.t, err)
	must(h.t, os.MkdirAll(postgres, 0o755))
	if out, err := exec.Command("cp", "-pR", data, filepath.Join(postgres, "data")).CombinedOutput(); err != nil {
		must(h.t, fmt.Errorf("copying the database: %w: %s", err, out))
	}
}
