package inventory

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"nodes", "gpus", "slots", "slot_claims", "enrolment_tokens", "holds", "health_reports", "breaker_trips"}, map[string]string{
		"declareNode": declareNode, "resellSlots": resellSlots, "drainNode": drainNode, "lockNodeOf": lockNodeOf, "retireDrained": retireDrained, "retireDrainedOf": retireDrainedOf, "countClaims": countClaims,
		"setReachability": setReachability, "lockNode": lockNode, "putGPUs": putGPUs, "setCards": setCards, "putSlots": putSlots,
		"selectCards": selectCards, "selectReports": selectReports, "selectOwnHolds": selectOwnHolds, "putReports": putReports, "forgetReports": forgetReports,
		"setTopology": setTopology, "setChanged": setChanged, "setAgent": setAgent, "acceptHardware": acceptHardware, "selectHardware": selectHardware, "liftOwn": liftOwn, "putOwn": putOwn,
		"lockBreaker": lockBreaker, "selectBreaker": selectBreaker, "tripBreaker": tripBreaker, "selectTrip": selectTrip, "clearBreaker": clearBreaker,
		"selectIll": selectIll, "selectTopology": selectTopology, "markHardware": markHardware, "selectOf": selectOf, "putOverride": putOverride, "dropOverride": dropOverride, "selectShown": selectShown, "countGPUs": countGPUs, "setHealth": setHealth,
		"quarantineSlots": quarantineSlots, "setSeen": setSeen, "insertToken": insertToken, "spendToken": spendToken, "lockTokens": lockTokens, "revokeTokens": revokeTokens,
		"reserveToken": reserveToken, "releaseToken": releaseToken, "selectRetired": selectRetired, "lockSpeaker": lockSpeaker,
		"setEnrolled": setEnrolled, "selectFree": selectFree, "selectCandidates": selectCandidates, "claimSlots": claimSlots, "dirtySlots": dirtySlots, "freeSlots": freeSlots,
		"quarantineClaimed": quarantineClaimed, "selectHeldGPUs": selectHeldGPUs, "selectUnhealthy": selectUnhealthy, "selectUnhealthySince": selectUnhealthySince, "selectCapacity": selectCapacity,
		"selectStanding": selectStanding, "selectStock": selectStock, "countFleet": countFleet,
		"selectNodes": selectNodes + ` WHERE n.name > $1 GROUP BY n.id`, "lockHeld": lockHeld, "putHold": putHold, "liftHolds": liftHolds, "lockSlots": lockSlots, "refreshHeld": refreshHeld,
		"markLeaving": markLeaving, "quarantineHeld": quarantineHeld, "selectHolds": selectHolds, "beginDrain": beginDrain, "endDrain": endDrain, "callDrainOff": callDrainOff, "lapseHolds": lapseHolds, "markNode": markNode, "markNodeOf": markNodeOf,
		"selectNode": selectNode, "selectLeave": selectLeave, "selectSlot": selectSlot, "clearSlot": clearSlot, "selectAddress": selectAddress, "selectDevices": selectDevices, "selectProofKey": selectProofKey, "selectNodesOf": selectNodesOf, "selectKept": selectKept, "selectNames": selectNames,
	})
}
