package evidence

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"evidence_bundles"}, map[string]string{
		"insertPending": insertPending, "insertFound": insertFound, "selectChanged": selectChanged, "countRecent": countRecent, "selectPage": selectPage, "selectOne": selectOne,
		"selectPending": selectPending, "beginAttempt": beginAttempt, "failAttempt": failAttempt, "lockChain": lockChain, "lockOne": lockOne, "selectNewest": selectNewest,
		"updateSigned": updateSigned, "selectFiles": selectFiles, "selectMissing": selectMissing, "deleteOld": deleteOld,
	})
}
