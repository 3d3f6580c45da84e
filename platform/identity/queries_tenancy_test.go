package identity

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestTenancyStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{
		"tenants", "projects", "users", "tenant_memberships", "project_memberships", "invitations",
		"service_accounts", "sessions", "service_account_credentials", "api_keys", "ssh_keys", "user_passwords", "sign_in_links",
	}, map[string]string{
		"selectTenant":          selectTenant,
		"selectTenants":         selectTenants,
		"selectTenantNames":     selectTenantNames,
		"insertTenant":          insertTenant,
		"updateTenant":          updateTenant,
		"selectTenantMembers":   selectTenantMembers,
		"selectCandidate":       selectCandidate,
		"selectTenantRole":      selectTenantRole,
		"selectWithRoles":       selectWithRoles,
		"putTenantMember":       putTenantMember,
		"deleteTenantMember":    deleteTenantMember,
		"deleteFromProjects":    deleteFromProjects,
		"selectInvitations":     selectInvitations,
		"selectInvitation":      selectInvitation,
		"selectMemberByEmail":   selectMemberByEmail,
		"closeExpired":          closeExpired,
		"insertInvitation":      insertInvitation,
		"revokeInvitation":      revokeInvitation,
		"selectProjectByID":     selectProjectByID,
		"selectProjectPage":     selectProjectPage,
		"insertProject":         insertProject,
		"updateProject":         updateProject,
		"closeProject":          closeProject,
		"selectLeaving":         selectLeaving,
		"closeProjects":         closeProjects,
		"closeAccounts":         closeAccounts,
		"closeCredentials":      closeCredentials,
		"closeInvitations":      closeInvitations,
		"deleteProjectMembers":  deleteProjectMembers,
		"deleteTenantMembers":   deleteTenantMembers,
		"closeTenant":           closeTenant,
		"forgetSessions":        forgetSessions,
		"forgetKeys":            forgetKeys,
		"forgetMadeCredentials": forgetMadeCredentials,
		"forgetSSHKeys":         forgetSSHKeys,
		"forgetPasswords":       forgetPasswords,
		"forgetLinks":           forgetLinks,
		"forgetInvitations":     forgetInvitations,
		"forgetProjects":        forgetProjects,
		"forgetMemberships":     forgetMemberships,
		"forgetUsers":           forgetUsers,
		"selectBarred":          selectBarred,
		"disableAccounts":       disableAccounts,
		"selectProjectMembers":  selectProjectMembers,
		"selectProjectRole":     selectProjectRole,
		"putProjectMember":      putProjectMember,
		"deleteProjectMember":   deleteProjectMember,
		"selectUser":            selectUser,
		"selectUsers":           selectUsers,
		"insertUser":            insertUser,
		"updateUser":            updateUser,
		"unlinkUser":            unlinkUser,
		"lockUsers":             lockUsers,
		"selectAdmin":           selectAdmin,
		"endSessions":           endSessions,
		"selectOwnInvitation":   selectOwnInvitation,
		"selectOwnInvitations":  selectOwnInvitations,
		"acceptInvitation":      acceptInvitation,
		"joinTenant":            joinTenant,
		"selectPerson":          selectPerson,
		"selectFirstAdmin":      selectFirstAdmin,
		"insertAdmin":           insertAdmin,
	})
}

func TestTenancyStatementsKeepTheirIndexes(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{
		"selectTenants": selectTenants, "selectTenantMembers": selectTenantMembers,
		"selectInvitations": selectInvitations, "selectProjectByID": selectProjectByID, "selectProjectPage": selectProjectPage,
		"selectProjectMembers": selectProjectMembers,
		"selectUser":           selectUser, "selectUsers": selectUsers,
	})
}
