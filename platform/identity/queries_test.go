package identity

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"tenants", "projects", "users", "project_memberships", "service_accounts", "idempotency_keys"}, map[string]string{
		"selectProject":  selectProject,
		"selectProjects": selectProjects,
		"selectReplay":   selectReplay,
		"insertReply":    insertReply,
		"updateReply":    updateReply,
		"deleteReplies":  deleteReplies,
		"lockTenant":     lockTenant,
		"lockProject":    lockProject,
		"lockUser":       lockUser,

		"lockServiceAccount": lockServiceAccount,
	})
}

func TestStatementsKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{
		"selectProject": selectProject, "selectProjects": selectProjects,
		"selectReplay": selectReplay, "lockTenant": lockTenant, "lockProject": lockProject, "lockUser": lockUser,
	})
}
