package check

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"storage_objects", "storage_reservations", "storage_checks", "storage_faults", "storage_uploads", "storage_history"}, map[string]string{
		"selectPosition": selectPosition, "selectState": selectState, "selectFiles": selectFiles, "selectUnknown": selectUnknown,
		"insertFault": insertFault, "deleteFaults": deleteFaults, "movePosition": movePosition, "selectWithoutRow": selectWithoutRow, "countLeft": countLeft,
		"selectProjectFiles": selectProjectFiles, "selectFaulty": selectFaulty, "selectStrays": selectStrays,
	})
}
