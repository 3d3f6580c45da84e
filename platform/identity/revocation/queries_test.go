package revocation

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"api_keys", "service_account_credentials", "ssh_keys"}, map[string]string{
		"endAPIKeys": endAPIKeys, "deleteMadeSSHKeys": deleteMadeSSHKeys,
	})
}
