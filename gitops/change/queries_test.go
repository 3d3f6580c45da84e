package change

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"plans", "plan_approvals"}, map[string]string{
		"lockChange": lockChange, "findPlan": findPlan, "insertPlan": insertPlan, "renewPlan": renewPlan, "selectPlan": selectPlan,
		"lockPlan": lockPlan, "selectPlans": selectPlans, "decidePlan": decidePlan, "finishPlan": finishPlan, "agePlan": agePlan,
		"addApproval": addApproval, "changeNeeded": changeNeeded,
	})
}
