package agentrelease

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"nodes", "holds", "agent_releases", "agent_updates", "agent_rollouts"}, map[string]string{
		"putRelease": putRelease, "selectReleases": selectReleases, "selectRelease": selectRelease, "tryLead": tryLead, "selectFleet": selectFleet,
		"selectUpdates": selectUpdates, "moveUpdates": moveUpdates, "forgetUpdates": forgetUpdates, "askUpdate": askUpdate, "retryVersion": retryVersion,
		"putRollout": putRollout, "endRollouts": endRollouts, "selectRollouts": selectRollouts, "selectOf": selectOf, "selectLatest": selectLatest,
	})
}
