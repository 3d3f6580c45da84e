package identity

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestTenancyStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{
		"tenants", "projects", "users", "tenant_memberships", "project_memberships", "invitations",
		"service_accounts", "service_account_credentials", "api_keys", "sessions",
	}, map[string]string{
		"selectTenant":           selectTenant,
		"selectTenants":          selectTenants,
		"selectTenantNames":      selectTenantNames,
		"insertTenant":           insertTenant,
		"updateTenant":           updateTenant,
		"selectTenantMembers":    selectTenantMembers,
		"selectCandidate":        selectCandidate,
		"selectTenantRole":       selectTenantRole,
		"putTenantMember":        putTenantMember,
		"deleteTenantMember":     deleteTenantMember,
		"deleteFromProjects":     deleteFromProjects,
		"selectInvitations":      selectInvitations,
		"selectInvitation":       selectInvitation,
		"selectMemberByEmail":    selectMemberByEmail,
		"closeExpired":           closeExpired,
		"insertInvitation":       insertInvitation,
		"revokeInvitation":       revokeInvitation,
		"selectProjectByID":      selectProjectByID,
		"selectProjectPage":      selectProjectPage,
		"insertProject":          insertProject,
		"updateProject":          updateProject,
		"closeProject":           closeProject,
		"disableAccounts":        disableAccounts,
		"selectProjectMembers":   selectProjectMembers,
		"selectProjectRole":      selectProjectRole,
		"putProjectMember":       putProjectMember,
		"deleteProjectMember":    deleteProjectMember,
		"selectUser":             selectUser,
		"selectUsers":            selectUsers,
		"insertUser":             insertUser,
		"updateUser":             updateUser,
		"lockUsers":              lockUsers,
		"selectAdmin":            selectAdmin,
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
		"revokeAPIKey":           revokeAPIKey,
		"selectAllSessions":      selectAllSessions,
		"selectSessions":         selectSessions,
		"selectSessionOwner":     selectSessionOwner,
		"endSessions":            endSessions,
	})
}

func TestTenancyStatementsKeepTheirIndexes(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{
		"selectTenants": selectTenants, "selectTenantMembers": selectTenantMembers,
		"selectInvitations": selectInvitations, "selectProjectByID": selectProjectByID, "selectProjectPage": selectProjectPage,
		"selectProjectMembers": selectProjectMembers, "selectServiceAccounts": selectServiceAccounts, "selectServiceAccount": selectServiceAccount,
		"selectCredentials": selectCredentials, "countCredentials": countCredentials, "selectAPIKeys": selectAPIKeys,
		"selectSessions": selectSessions, "selectAllSessions": selectAllSessions, "selectUser": selectUser, "selectUsers": selectUsers,
	})
}
