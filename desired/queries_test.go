package desired

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"desired_objects"}, map[string]string{
		"insertObject":       insertObject,
		"updateSpec":         updateSpec,
		"updateTombstone":    updateTombstone,
		"dropObject":         dropObject,
		"raiseEpoch":         raiseEpoch,
		"raiseFences":        raiseFences,
		"selectObject":       selectObject,
		"selectPolicies":     selectPolicies,
		"selectAllocations":  selectAllocations,
		"selectKeyless":      selectKeyless,
		"selectDeclared":     selectDeclared,
		"upsertSource":       upsertSource,
		"lockSole":           lockSole,
		"selectSole":         selectSole,
		"upsertOwned":        upsertOwned,
		"selectNamed":        selectNamed,
		"buryObjects":        tombstoneObjects,
		"selectSource":       selectSource,
		"selectSourceLocked": selectSourceLocked,
		"renameObjects":      renameObjects,
		"updateObject":       updateObject,
		"suspendObject":      suspendObject,
		"resumeObject":       resumeObject,
		"offerObject":        offerObject,
		"takeObject":         takeObject,
		"exportObjects":      exportObjects,
		"selectSlice":        selectSlice,
		"selectLast":         selectLast,
		"countRoughly":       countRoughly,
	})
}
