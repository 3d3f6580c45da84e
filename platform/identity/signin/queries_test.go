package signin

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestSignInStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{
		"tenants", "projects", "users", "tenant_memberships", "api_keys", "sessions", "service_accounts",
		"service_account_credentials", "user_passwords", "sign_in_links", "revoked_tokens",
	}, map[string]string{
		"selectKeyHolder":        selectKeyHolder,
		"selectSessionHolder":    selectSessionHolder,
		"selectSubject":          selectSubject,
		"touchKey":               touchKey,
		"touchSession":           touchSession,
		"touchCredential":        touchCredential,
		"selectCredentialHolder": selectCredentialHolder,
		"selectProgram":          selectProgram,
		"selectJobHolders":       selectJobHolders,
		"lockPeople":             lockPeople,
		"insertPerson":           insertPerson,
		"updatePerson":           updatePerson,
		"noteSignIn":             noteSignIn,
		"insertSession":          insertSession,
		"selectSession":          selectSession,
		"endSession":             endSession,
		"storeGrant":             storeGrant,
		"removeGrant":            removeGrant,
		"claimCheck":             claimCheck,
		"claimRevocations":       claimRevocations,
		"endOthers":              endOthers,
		"revokeToken":            revokeToken,
		"deleteRevoked":          deleteRevoked,
		"deleteSessions":         deleteSessions,
		"deleteLinks":            deleteLinks,
		"selectUsual":            selectUsual,
		"passwordOf":             passwordOf,
		"putPassword":            putPassword,
		"rehashPassword":         rehashPassword,
		"insertLink":             insertLink,
		"useLink":                useLink,
		"selectAllSessions":      selectAllSessions,
		"selectSessions":         selectSessions,
		"selectSessionOwner":     selectSessionOwner,
	})
}

func TestSignInStatementsKeepTheirIndexes(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{
		"selectKeyHolder": selectKeyHolder, "selectSessionHolder": selectSessionHolder, "selectSessions": selectSessions, "selectAllSessions": selectAllSessions,
	})
}
