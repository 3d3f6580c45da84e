package allocation

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"allocations", "allocation_transitions", "ssh_certificates"}, map[string]string{
		"insertAllocation": insertAllocation, "countLive": countLive, "countActive": countActive, "moveAllocation": moveAllocation, "lockCommitted": lockCommitted, "selectCommitted": selectCommitted,
		"lockAllocation": lockAllocation, "selectAllocation": selectAllocation, "selectPage": selectPage, "selectSome": selectSome, "selectTimeline": selectTimeline, "selectStanding": selectLiveAllocations, "selectHoldings": selectHoldings, "countHeld": countHeld, "lockOpen": lockOpen, "selectQueued": selectQueued, "lockQueued": lockQueued, "placeAllocation": placeAllocation, "queueExists": queueExists, "warnExpiring": warnExpiring,
		"setPrices": setPrices, "setPrice": setPrice, "setPaused": setPaused, "setLeave": setLeave, "setIdle": setIdle, "selectPaused": selectPaused,
		"countOfTenant": countOfTenant, "countOfUser": countOfUser,
		"insertCertificate": insertCertificate, "selectRevoked": selectRevoked, "revokeCertificates": revokeCertificates, "deleteCertificates": deleteCertificates,
		"setAuthorities": setAuthorities, "lockOutdated": lockOutdated,
	})
}

func TestStatementsKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{
		"countLive": countLive, "lockCommitted": lockCommitted, "selectCommitted": selectCommitted, "lockAllocation": lockAllocation, "selectAllocation": selectAllocation,
		"selectPage": selectPage, "selectTimeline": selectTimeline, "insertAllocation": insertAllocation,
	})
}
