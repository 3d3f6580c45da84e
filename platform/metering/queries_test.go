package metering

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	ours := []string{"usage_records", "usage_ticks", "usage_passes"}
	pgtest.Prepare(t, ours, map[string]string{
		"openInterval":    openInterval,
		"closeInterval":   closeInterval,
		"waitBriefly":     waitBriefly,
		"lockCut":         lockCut,
		"insertTicks":     insertTicks,
		"selectUncharged": selectUncharged,
		"lockCharge":      lockCharge,
		"selectUsage":     selectUsage,
		"selectCosts":     selectCosts,
		"selectBurn":      selectBurn,
		"selectBurns":     selectBurns,
		"selectCharged":   selectCharged,
	})
	pgtest.Prepare(t, append(ours, "usage_credits"), map[string]string{"selectSpent": selectSpent})
	// Half of this one is the ledger's text.
	pgtest.Prepare(t, append(ours, "ledger_accounts", "ledger_transfers", "ledger_entries"), map[string]string{"chargeUsage": chargeUsage})
}

func TestStatementsKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{"closeInterval": closeInterval, "selectUsage": selectUsage, "selectCosts": selectCosts, "selectBurn": selectBurn})
}
