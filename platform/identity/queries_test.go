package identity

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"tenants", "projects", "users", "tenant_memberships", "project_memberships", "api_keys", "sessions", "ssh_keys", "idempotency_keys"}, map[string]string{
		"insertKey":      insertKey,
		"revokeKeys":     revokeKeys,
		"selectProject":  selectProject,
		"selectProjects": selectProjects,
		"selectReplay":   selectReplay,
		"insertReply":    insertReply,
		"updateReply":    updateReply,
		"deleteReplies":  deleteReplies,
		"lockTenant":     lockTenant,
		"lockProject":    lockProject,
		"lockUser":       lockUser,
		"insertSSHKey":   insertSSHKey,
		"selectSSHKeys":  selectSSHKeys,
		"selectSSHKey":   selectSSHKey,
		"deleteSSHKey":   deleteSSHKey,
		"selectKeyLines": selectKeyLines,
	})
}

func TestStatementsKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{
		"selectKeyHolder": selectKeyHolder, "selectSessionHolder": selectSessionHolder, "selectProject": selectProject, "selectProjects": selectProjects,
		"selectReplay": selectReplay, "lockTenant": lockTenant, "lockProject": lockProject, "lockUser": lockUser,
		"selectSSHKeys": selectSSHKeys, "deleteSSHKey": deleteSSHKey, "selectKeyLines": selectKeyLines,
	})
}
