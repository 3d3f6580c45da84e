package forge

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"forge_reports"}, map[string]string{
		"wantReports": wantReports, "takeReport": lockReport, "reportTold": markSent, "reportFailed": reportFailed,
		"pauseReports": pauseReports, "selectUntold": selectPending, "selectReports": selectReports,
	})
}
