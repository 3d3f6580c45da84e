package reconciler

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"reconcile_due", "plans", "plan_actions", "drift"}, map[string]string{
		"selectDue": selectDue, "selectSwept": selectSwept, "selectProgress": selectProgress, "selectKept": selectNodeSpecs, "countNodes": countNodes,
		"selectFindings": selectFindings, "selectApproved": selectApproved, "settleDue": deleteDue, "keepDue": keepDue, "addDue": addDue, "insertPlan": insertPlan,
		"insertActions": insertActions, "lockJudged": lockAutomatic, "selectJudged": selectAutomatic, "selectPlans": selectPlans,
		"selectPlan": selectPlan, "selectActions": selectActions, "selectDrift": selectDrift, "selectDrifts": selectDrifts,
		"selectDriftsIn": selectDriftsIn, "selectOpenOf": selectOpenOf, "selectDriftsOf": selectDriftsOf, "ignoreDrift": ignoreDrift, "selectLoad": selectLoad,
		"openDrift": openDrift, "changeDrift": changeDrift, "healDrift": healDrift, "deleteDrift": deleteDrift,
	})
}
