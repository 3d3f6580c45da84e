package pgtest

import (
	"path/filepath"
	"runtime"
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgcluster"
)

// The garbage collector closes the file of an unreachable lock. The next test process would then
// consider this folder abandoned and delete it under the running server.
func TestTheClusterIsHeldAsLongAsTheProcessLives(t *testing.T) {
	t.Parallel()

	dir := filepath.Dir(cluster(t).cluster.LogFile())
	for range 2 { // a finalizer runs one collection before its file is freed
		runtime.GC()
	}
	if err := pgcluster.Idle(dir); err == nil {
		t.Errorf("no process has locked %s any more", dir)
	}
}
