package revision

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"desired_objects", "desired_revisions", "desired_pointer", "git_sources"}, map[string]string{
		"lockSource":         lockSource,
		"insertRevision":     insertRevision,
		"updateRevision":     updateRevision,
		"overtakeRevisions":  overtakeRevisions,
		"movePointer":        movePointer,
		"deleteRevisions":    deleteRevisions,
		"selectPointer":      selectPointer,
		"selectRevisions":    selectRevisions,
		"selectRevision":     selectRevision,
		"selectLatest":       selectLatest,
		"renamePointer":      renamePointer,
		"renameRevision":     renameRevision,
		"upsertSources":      upsertSources,
		"leaveSources":       leaveSources,
		"sawSource":          sawSource,
		"askSource":          askSource,
		"suspendSource":      suspendSource,
		"resumeSource":       resumeSource,
		"selectSources":      selectSources,
		"selectSourceByName": selectSourceByName,
		"selectWritten":      selectWritten,
		"invalidateTree":     invalidateTree,
		"selectSettings":     selectSettings,
	})
}
