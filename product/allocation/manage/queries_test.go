package manage

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"allocations", "allocation_transitions", "fault_reports", "release_proofs"}, map[string]string{
		"selectAll": selectAll, "countAll": countAll, "countGroups": countGroups, "countBefore": countBefore, "selectLeases": selectLeases, "updateAllocation": updateAllocation, "selectProof": selectProof,
		"insertFault": insertFault, "selectFault": selectFault, "lockFault": lockFault, "decideFault": decideFault, "selectFaults": selectFaults, "selectFaultsOf": selectFaultsOf,
	})
}
