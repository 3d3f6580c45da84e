package revocation

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"api_keys", "service_account_credentials", "ssh_keys", "sessions"}, map[string]string{
		"endSessionsBefore": endSessionsBefore, "endAPIKeys": endAPIKeys, "deleteMadeSSHKeys": deleteMadeSSHKeys,
	})
}
