package allocation

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

var newest, sorted, _ = Sorts.Page("", pg.Place{}, 6, 7)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"allocations", "allocation_transitions", "ssh_certificates"}, map[string]string{
		"insertAllocation": insertAllocation, "countLive": countLive, "countActive": countActive, "moveAllocation": moveAllocation, "lockCommitted": lockCommitted, "selectCommitted": selectCommitted,
		"lockAllocation": lockAllocation, "selectAllocation": selectAllocation, "selectPage": selectPage + " AND " + newest + " " + sorted + " LIMIT $8", "selectSome": selectSome, "selectTimeline": selectTimeline, "selectStanding": selectLiveAllocations, "selectHoldings": selectHoldings, "countHeld": countHeld, "lockOpen": lockOpen, "selectQueued": selectQueued, "lockQueued": lockQueued, "placeAllocation": placeAllocation, "queueExists": queueExists, "warnExpiring": warnExpiring,
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
		"selectPage": selectPage + " AND " + newest + " " + sorted + " LIMIT $8", "selectTimeline": selectTimeline, "insertAllocation": insertAllocation,
	})
}
