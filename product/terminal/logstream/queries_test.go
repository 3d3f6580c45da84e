package logstream

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"log_streams"}, map[string]string{
		"deleteSilent": deleteSilent, "countOpen": countOpen, "insertStream": insertStream, "beat": beat, "deleteStream": deleteStream, "redeem": redeem,
		"selectTarget": selectTarget, "deleteOld": deleteOld,
	})
}
