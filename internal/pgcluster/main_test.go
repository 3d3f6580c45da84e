package pgcluster_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgcluster"
)

// TestMain is also the program that tests kill: with this variable set it owns
// a cluster in the named directory until it dies.
func TestMain(m *testing.M) {
	dir := os.Getenv("PGCLUSTER_TEST_OWN")
	if dir == "" {
		os.Exit(m.Run())
	}
	cluster, err := pgcluster.Start(context.Background(), pgcluster.Config{Dir: dir})
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	fmt.Println(cluster.URL())
	<-cluster.Done()
}
