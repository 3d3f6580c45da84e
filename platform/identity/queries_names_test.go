package identity

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsOfNamesFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"projects", "users", "service_accounts", "tenants"}, map[string]string{
		"selectNames": selectNames, "selectProjectNames": selectProjectNames, "selectScopeSubjects": selectScopeSubjects,
	})
}

func TestStatementsOfNamesKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{"selectNames": selectNames})
}
