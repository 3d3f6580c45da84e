package observed

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"observed_nodes", "observed_leases", "observed_allocations", "observed_objects"}, map[string]string{
		"putReport": putReport, "selectBoot": selectBoot, "selectCarriedOut": selectCarriedOut, "markNode": markNode, "wakeNode": wakeNode, "putSeen": putObserved, "forget": forget, "countFailure": countFailure, "countApplyFailure": countApplyFailure,
		"putApplied": putApplied, "selectSeen": selectObserved, "selectApplied": selectApplied, "selectHeard": selectHeard,
		"selectSilent": selectSilent, "selectCapability": selectCapability, "selectNode": selectNode, "selectHeld": selectHeld, "selectNewest": selectNewest, "selectMany": selectMany, "selectCarried": selectCarried, "countSilent": countSilent, "selectOld": selectOld, "selectLast": selectLast,
		"selectLease": selectLease, "selectLeased": selectLeased, "renewLease": renewLease, "endLease": endLease, "dropLeases": dropLeases,
		"deleteGone": deleteGone, "adoptReports": adoptReports, "lapseReports": lapseReports,
	})
}
