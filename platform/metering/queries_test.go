package metering

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	ours := []string{"usage_records", "usage_ticks", "usage_passes", "usage_credits"}
	pgtest.Prepare(t, ours, map[string]string{
		"openInterval":              openInterval,
		"closeInterval":             closeInterval,
		"pauseInterval":             pauseInterval,
		"repriceIntervals":          repriceIntervals,
		"selectUncredited":          selectUncredited,
		"selectAllocationsOf":       selectAllocationsOf,
		"insertCredit":              insertCredit,
		"waitBriefly":               waitBriefly,
		"lockCut":                   lockCut,
		"insertTicks":               insertTicks,
		"selectUncharged":           selectUncharged,
		"selectPasses":              selectPasses,
		"lockCharge":                lockCharge,
		"selectNext":                selectNext,
		"selectUsage by allocation": selectUsage[ByAllocation],
		"selectUsage by project":    selectUsage[ByProject],
		"selectUsage by SKU":        selectUsage[BySKU],
		"selectUsage by user":       selectUsage[ByUser],
		"selectUsage by day":        selectUsage[ByDay],
		"selectIntervals":           selectIntervals,
		"selectCosts":               selectCosts,
		"selectBurn":                selectBurn,
		"selectOpen":                selectOpen,
		"selectLag":                 selectLag,
		"sumClosed":                 sumClosed,
		"selectBurns":               selectBurns,
		"selectAllBurns":            selectAllBurns,
		"selectCharged":             selectCharged,
		"selectSpent":               selectSpent,
	})
	// Half of this one is the ledger's text.
	pgtest.Prepare(t, append(ours, "ledger_accounts", "ledger_transfers", "ledger_entries"), map[string]string{"chargeUsage": chargeUsage, "compareUsage": compareUsage})
}

func TestStatementsKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{"closeInterval": closeInterval, "selectUsage": selectUsage[ByAllocation], "by day": selectUsage[ByDay], "selectIntervals": selectIntervals, "selectSpent": selectSpent, "selectCosts": selectCosts, "selectBurn": selectBurn})
}
