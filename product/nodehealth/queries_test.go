package nodehealth

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"nodes", "gpus", "slots", "slot_claims", "enrolment_tokens", "holds", "health_reports", "breaker_trips"}, map[string]string{
		"lockNode":        lockNode,
		"selectContested": selectContested,
		"selectCards":     selectCards,
		"selectReports":   selectReports,
		"selectOwnHolds":  selectOwnHolds,
		"putReports":      putReports,
		"forgetReports":   forgetReports,
		"lockBreaker":     lockBreaker,
		"selectBreaker":   selectBreaker,
		"tripBreaker":     tripBreaker,
		"selectTrip":      selectTrip,
		"clearBreaker":    clearBreaker,
		"selectIll":       selectIll,
		"selectOf":        selectOf,
		"putOverride":     putOverride,
		"dropOverride":    dropOverride,
		"selectShown":     selectShown,
	})
}
