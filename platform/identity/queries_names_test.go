package identity

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsOfNamesFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"projects", "users", "service_accounts"}, map[string]string{
		"selectNames": selectNames, "selectProjectNames": selectProjectNames,
	})
}

func TestStatementsOfNamesKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{"selectNames": selectNames})
}
