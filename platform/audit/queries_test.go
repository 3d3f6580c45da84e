package audit

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"audit_logs"}, map[string]string{
		"insertEntry": insertEntry,
	})
}
