package restore

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"restores", "restore_reports", "restore_allocations"}, map[string]string{
		"selectOpen": selectOpen, "selectLast": selectLast, "selectLatest": selectLatest, "insertRestore": insertRestore, "replaceOpen": replaceOpen, "lockRestores": lockRestores,
		"lockReaders": lockReaders,
		"lockReports": lockReports, "confirmOpen": confirmOpen, "storePart": storePart, "putReport": putReport, "insertUnknown": insertUnknown, "selectUnknown": selectUnknown,
		"selectDifferences": selectDifferences, "selectNodes": selectNodes, "selectServers": selectServers,
	})
}
