package keys

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"service_accounts", "service_account_credentials", "api_keys", "ssh_keys"}, map[string]string{
		"insertKey":              insertKey,
		"revokeKeys":             revokeKeys,
		"insertSSHKey":           insertSSHKey,
		"selectSSHKeys":          selectSSHKeys,
		"selectSSHKey":           selectSSHKey,
		"deleteSSHKey":           deleteSSHKey,
		"selectKeyLines":         selectKeyLines,
		"selectServiceAccounts":  selectServiceAccounts,
		"selectServiceAccount":   selectServiceAccount,
		"insertServiceAccount":   insertServiceAccount,
		"updateServiceAccount":   updateServiceAccount,
		"deleteServiceAccount":   deleteServiceAccount,
		"lockAccountVersion":     lockAccountVersion,
		"selectProjectOfAccount": selectProjectOfAccount,
		"selectCredentials":      selectCredentials,
		"selectCredential":       selectCredential,
		"countCredentials":       countCredentials,
		"insertCredential":       insertCredential,
		"revokeCredential":       revokeCredential,
		"revokeCredentials":      revokeCredentials,
		"selectAPIKeys":          selectAPIKeys,
		"selectAPIKey":           selectAPIKey,
		"insertAPIKey":           insertAPIKey,
		"selectEndedMaker":       selectEndedMaker,
	})
}

func TestStatementsKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{
		"selectServiceAccounts": selectServiceAccounts, "selectServiceAccount": selectServiceAccount, "selectCredentials": selectCredentials,
		"countCredentials": countCredentials, "selectAPIKeys": selectAPIKeys, "selectSSHKeys": selectSSHKeys, "deleteSSHKey": deleteSSHKey,
		"selectKeyLines": selectKeyLines,
	})
}
