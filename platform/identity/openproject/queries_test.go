package openproject

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"projects"}, map[string]string{"requireProject": requireProject, "lockProject": lockProject})
}
