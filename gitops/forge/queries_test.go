package forge

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"forge_reports", "forge_pushes"}, map[string]string{
		"wantReports": wantReports, "takeReport": lockReport, "reportTold": markSent, "reportFailed": reportFailed,
		"pauseReports": pauseReports, "selectUntold": selectPending, "selectReports": selectReports,
		"insertPush": insertPush, "deletePushes": deletePushes, "deleteReports": deleteReports, "selectPushers": selectPushers,
	})
}
