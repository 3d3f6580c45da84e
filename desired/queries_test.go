package desired

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"desired_objects", "desired_revisions", "desired_pointer", "git_sources"}, map[string]string{
		"insertObject": insertObject, "updateSpec": updateSpec, "updateTombstone": updateTombstone, "dropObject": dropObject, "raiseEpoch": raiseEpoch,
		"selectObject": selectObject, "selectPolicies": selectPolicies, "selectAllocations": selectAllocations, "selectDeclared": selectDeclared,
		"upsertSource": upsertSource, "lockSole": lockSole, "selectSole": selectSole, "upsertOwned": upsertOwned, "selectNamed": selectNamed, "buryObjects": buryObjects, "lockSource": lockSource, "selectSource": selectSource,
		"selectSourceLocked": selectSourceLocked, "insertRevision": insertRevision, "updateRevision": updateRevision,
		"overtakeRevisions": overtakeRevisions, "movePointer": movePointer, "selectPointer": selectPointer, "selectRevisions": selectRevisions,
		"selectRevision": selectRevision, "selectLatest": selectLatest, "renamePointer": renamePointer, "renameObjects": renameObjects,
		"renameRevision": renameRevision, "upsertSources": upsertSources, "leaveSources": leaveSources, "sawSource": sawSource, "askSource": askSource, "tearSource": tearSource,
		"suspendSource": suspendSource, "resumeSource": resumeSource, "selectSources": selectSources, "selectSourceByName": selectSourceByName,
		"updateObject": updateObject, "suspendObject": suspendObject, "resumeObject": resumeObject,
		"offerObject": offerObject, "takeObject": takeObject, "exportObjects": exportObjects, "selectSlice": selectSlice, "selectWritten": selectWritten, "countRoughly": countRoughly,
	})
}
