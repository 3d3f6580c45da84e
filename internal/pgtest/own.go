package pgtest

import (
	"context"
	"maps"
	"path/filepath"
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgcluster"
)

// Own starts a cluster of the test's own with the migrated schema, and returns it with the URL of the database. It is for
// what concerns the whole cluster. The cluster writes full WAL of segments of 1 MiB.
func Own(t testing.TB, dir string, params map[string]string) (*pgcluster.Cluster, string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	data, err := migrated(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := duplicate(ctx, data, filepath.Join(dir, "data")); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"wal_level": "replica", "max_wal_senders": "4", "full_page_writes": "on", "synchronous_commit": "on", "min_wal_size": "2MB"}
	maps.Copy(all, params)
	cluster, err := pgcluster.Start(ctx, pgcluster.Config{Dir: dir, Params: all})
	if err != nil {
		t.Fatal(err)
	}
	in := instance{url: cluster.URL()}
	return cluster, in.at(template)
}
