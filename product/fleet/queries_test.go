package fleet

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

var nodesPage, _ = page("", pg.Place{})

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"nodes", "gpus", "slots", "slot_claims", "enrolment_tokens", "holds", "health_reports", "breaker_trips"}, map[string]string{
		"declareNode":      declareNode,
		"countProvisioned": countProvisioned,
		"drainNode":        drainNode,
		"lockNodeOf":       lockNodeOf,
		"retireDrained":    retireDrained,
		"retireDrainedOf":  retireDrainedOf,
		"setReachability":  setReachability,
		"putGPUs":          putGPUs,
		"contestGPUs":      contestGPUs,
		"setCards":         setCards,
		"setTopology":      setTopology,
		"setChanged":       setChanged,
		"setMounts":        setMounts,
		"setAgent":         setAgent,
		"acceptHardware":   acceptHardware,
		"selectHardware":   selectHardware,
		"liftOwn":          liftOwn,
		"putOwn":           putOwn,
		"selectTopology":   selectTopology,
		"markHardware":     markHardware,
		"countGPUs":        countGPUs,
		"setHealth":        setHealth,
		"setSeen":          setReported,
		"insertToken":      insertToken,
		"spendToken":       spendToken,
		"lockTokens":       lockTokens,
		"revokeTokens":     revokeTokens,
		"reserveToken":     reserveToken,
		"releaseToken":     releaseToken,
		"selectRetired":    selectRetired,
		"lockSpeaker":      lockSpeaker,
		"setEnrolled":      setEnrolled,
		"selectEnrolled":   selectEnrolled,
		"selectNodes":      nodesPage,
		"lockHeld":         lockHeld,
		"putHold":          putHold,
		"liftHolds":        liftHolds,
		"markLeaving":      markLeaving,
		"selectHolds":      selectHolds,
		"beginDrain":       beginDrain,
		"endDrain":         endDrain,
		"callDrainOff":     callDrainOff,
		"lapseHolds":       lapseHolds,
		"markNode":         markNode,
		"markNodeOf":       markNodeOf,
		"selectNode":       selectNode,
		"selectLeave":      selectLeave,
		"selectSSH":        selectSSH,
		"selectDevices":    selectDevices,
		"selectProofKey":   selectProofKey,
		"selectNodesOf":    selectNodesOf,
		"selectApplied":    selectApplied,
		"selectNames":      selectNames,
	})
}
