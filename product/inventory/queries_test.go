package inventory

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"nodes", "gpus", "slots", "slot_claims", "enrolment_tokens"}, map[string]string{
		"declareNode": declareNode, "resellSlots": resellSlots, "drainNode": drainNode, "lockNodeOf": lockNodeOf, "retireDrained": retireDrained, "retireDrainedOf": retireDrainedOf, "countClaims": countClaims,
		"setReachability": setReachability, "lockNode": lockNode, "putGPUs": putGPUs, "missGPUs": missGPUs, "putSlots": putSlots,
		"quarantineSlots": quarantineSlots, "setSeen": setSeen, "insertToken": insertToken, "spendToken": spendToken, "lockTokens": lockTokens, "revokeTokens": revokeTokens,
		"reserveToken": reserveToken, "releaseToken": releaseToken, "selectRetired": selectRetired, "lockSpeaker": lockSpeaker,
		"setEnrolled": setEnrolled, "selectFree": selectFree, "selectCandidates": selectCandidates, "claimSlots": claimSlots, "dirtySlots": dirtySlots, "freeSlots": freeSlots,
		"quarantineClaimed": quarantineClaimed, "selectHeldGPUs": selectHeldGPUs, "selectUnhealthy": selectUnhealthy, "selectUnhealthySince": selectUnhealthySince, "selectCapacity": selectCapacity,
		"selectStanding": selectStanding, "selectStock": selectStock, "countFleet": countFleet,
		"selectNodes": selectNodes + ` WHERE n.name > $1 GROUP BY n.id`, "selectDevices": selectDevices, "selectNodesOf": selectNodesOf, "selectKept": selectKept,
	})
}
