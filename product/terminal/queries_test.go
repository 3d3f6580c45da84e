package terminal

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"terminal_tokens", "terminal_sessions", "terminal_instances"}, map[string]string{
		"selectTokenEnd": selectTokenEnd, "selectResumable": selectResumable, "insertToken": insertToken, "redeemToken": redeemToken, "deleteTokens": deleteTokens,
		"countOpen": countOpen, "selectTarget": selectTarget, "insertSession": insertSession, "updateLogin": updateLogin, "updateBytes": updateBytes,
		"endSession": endSession, "requestEnd": requestEnd, "insertInstance": insertInstance, "deleteInstance": deleteInstance, "beat": beat, "deleteSilent": deleteSilent,
		"selectRunning": selectRunning, "selectKey": selectKey, "selectOwner": selectOwner, "selectOrphans": selectOrphans, "selectRights": selectRights, "selectSession": selectSession, "selectSessions": selectSessions, "deleteSessions": deleteSessions,
	})
}
