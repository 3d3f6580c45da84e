package listing

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"storage_objects"}, map[string]string{"selectByName": selectByName, "selectByTime": selectByTime, "selectFolder": selectFolder})
}
