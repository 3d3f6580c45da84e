package slots

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"nodes", "gpus", "slots", "slot_claims", "enrolment_tokens", "holds", "health_reports", "breaker_trips"}, map[string]string{
		"resellSlots":          resellSlots,
		"countClaims":          countClaims,
		"putSlots":             putSlots,
		"quarantineSlots":      quarantineSlots,
		"selectFree":           selectFree,
		"selectMissing":        selectMissing,
		"selectCandidates":     selectCandidates,
		"claimSlots":           claimSlots,
		"selectPlaced":         selectPlaced,
		"dirtySlots":           dirtySlots,
		"freeSlots":            freeSlots,
		"quarantineClaimed":    quarantineClaimed,
		"selectHeldGPUs":       selectHeldGPUs,
		"selectUnhealthy":      selectUnhealthy,
		"selectUnhealthySince": selectUnhealthySince,
		"selectCapacity":       selectCapacity,
		"selectStanding":       selectNodeSummaries,
		"selectStock":          selectStock,
		"countFleet":           countFleet,
		"lockSlots":            lockSlots,
		"refreshHeld":          refreshHeld,
		"quarantineHeld":       quarantineHeld,
		"selectSlot":           selectSlot,
		"clearSlot":            clearSlot,
		"retireSlots":          retireSlots,
		"retireSlotsOf":        retireSlotsOf,
	})
}
