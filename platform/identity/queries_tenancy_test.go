package identity

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestTenancyStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{
		"tenants", "projects", "users", "tenant_memberships", "project_memberships", "invitations",
		"service_accounts", "sessions",
	}, map[string]string{
		"selectTenant":         selectTenant,
		"selectTenants":        selectTenants,
		"selectTenantNames":    selectTenantNames,
		"insertTenant":         insertTenant,
		"updateTenant":         updateTenant,
		"selectTenantMembers":  selectTenantMembers,
		"selectCandidate":      selectCandidate,
		"selectTenantRole":     selectTenantRole,
		"putTenantMember":      putTenantMember,
		"deleteTenantMember":   deleteTenantMember,
		"deleteFromProjects":   deleteFromProjects,
		"selectInvitations":    selectInvitations,
		"selectInvitation":     selectInvitation,
		"selectMemberByEmail":  selectMemberByEmail,
		"closeExpired":         closeExpired,
		"insertInvitation":     insertInvitation,
		"revokeInvitation":     revokeInvitation,
		"selectProjectByID":    selectProjectByID,
		"selectProjectPage":    selectProjectPage,
		"insertProject":        insertProject,
		"updateProject":        updateProject,
		"closeProject":         closeProject,
		"disableAccounts":      disableAccounts,
		"selectProjectMembers": selectProjectMembers,
		"selectProjectRole":    selectProjectRole,
		"putProjectMember":     putProjectMember,
		"deleteProjectMember":  deleteProjectMember,
		"selectUser":           selectUser,
		"selectUsers":          selectUsers,
		"insertUser":           insertUser,
		"updateUser":           updateUser,
		"lockUsers":            lockUsers,
		"selectAdmin":          selectAdmin,
		"endSessions":          endSessions,
		"selectOwnInvitation":  selectOwnInvitation,
		"acceptInvitation":     acceptInvitation,
		"joinTenant":           joinTenant,
		"selectPerson":         selectPerson,
		"selectFirstAdmin":     selectFirstAdmin,
		"insertAdmin":          insertAdmin,
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
