package reseal

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestResealStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"sessions", "idempotency_keys"}, map[string]string{
		"selectOldRefresh": selectOldRefresh, "resealRefresh": resealRefresh, "countOldRefresh": countOldRefresh,
		"selectOldReplies": selectOldReplies, "resealReply": resealReply, "countOldReplies": countOldReplies,
	})
}
