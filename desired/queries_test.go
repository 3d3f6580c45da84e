package desired

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"desired_objects", "desired_revisions", "desired_pointer"}, map[string]string{
		"insertObject": insertObject, "updateSpec": updateSpec, "updateTombstone": updateTombstone, "dropObject": dropObject,
		"raiseEpoch": raiseEpoch, "selectObject": selectObject, "selectAllocations": selectAllocations, "selectDeclared": selectDeclared, "selectPolicies": selectPolicies,
		"upsertSource": upsertSource, "buryObjects": buryObjects, "insertRevision": insertRevision, "movePointer": movePointer,
		"selectPointer": selectPointer, "selectRevisions": selectRevisions, "selectSlice": selectSlice, "countRoughly": countRoughly,
	})
}
