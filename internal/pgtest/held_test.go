package pgtest

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgcluster"
)

// A collected lock is a closed lock: then the next test process takes the folder
// of this one for abandoned, and removes it under the running server.
func TestTheClusterIsHeldAsLongAsTheProcessLives(t *testing.T) {
	t.Parallel()

	dir := filepath.Dir(cluster(t).cluster.LogFile())
	for range 2 { // what a file holds is let go of by the collection after the one that finds it
		runtime.GC()
	}
	if err := pgcluster.Idle(dir); err == nil {
		t.Errorf("nobody holds %s any more", dir)
	}
}
