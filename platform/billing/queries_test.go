package billing

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"balance_notices"}, map[string]string{
		"insertNotices": insertNotices, "lockNotices": lockNotices, "updateNotices": updateNotices, "selectPendingNotices": selectPendingNotices, "selectPending": selectPending,
		"selectOverdueFiles": selectOverdueFiles, "selectFilesDeletion": selectFilesDeletion,
	})
}

func TestStatementsKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{"selectPending": selectPending})
}
