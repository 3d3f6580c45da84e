package nodetask

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"node_tasks"}, map[string]string{
		"settleTasks": finishTasks, "settleNodeTasks": finishNodeTasks, "insertTask": insertTask, "takeTasks": takeTasks,
		"stepTask": stepTask, "finishTask": finishTask, "sameResult": sameResult, "selectOf": selectOf, "selectTo": selectTo, "selectWaits": selectWaits, "selectStanding": selectLastApplied, "nextFence": nextFence, "selectAbout": selectAbout, "cancelQueued": cancelQueued, "selectLast": selectLast, "selectProbed": selectProbed, "countQueued": countQueued, "deleteTasks": deleteTasks,
	})
}
