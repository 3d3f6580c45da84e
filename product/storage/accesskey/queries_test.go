package accesskey

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"storage_access_keys"}, map[string]string{
		"selectKeys": selectKeys, "selectKey": selectKey, "selectUse": selectUse, "touchKey": touchKey, "deleteKey": deleteKey, "insertKey": insertKey,
		"deleteExpired": deleteExpired, "selectOldSecrets": selectOldSecrets, "countOldSecrets": countOldSecrets, "resealSecret": resealSecret, "selectOldMounts": selectOldMounts, "countOldMounts": countOldMounts,
		"insertMountKey": insertMountKey, "placeMountKeys": placeMountKeys, "deleteMountKeys": deleteMountKeys, "extendMountKeys": extendMountKeys,
	})
}
