package metering

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	ours := []string{"usage_records", "usage_ticks", "usage_passes", "usage_credits", "usage_storage", "usage_storage_price"}
	pgtest.Prepare(t, ours, map[string]string{
		"openInterval":              openInterval,
		"closeInterval":             closeInterval,
		"pauseInterval":             pauseInterval,
		"repriceIntervals":          repriceIntervals,
		"selectUncredited":          selectUncredited,
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
		"storeBytes":                storeBytes,
		"setStoragePrice":           setStoragePrice,
		"selectStorageBurn":         selectStorageBurn,
		"selectStorageBurns":        selectStorageBurns,
		"selectPaying":              selectPaying,
		"sumStored":                 sumStored,
		"selectStoredUses":          selectStoredUses,
	})
	// Half of this one is the ledger's text.
	pgtest.Prepare(t, append(ours, "ledger_accounts", "ledger_transfers", "ledger_entries", "ledger_balances"), map[string]string{"chargeUsage": chargeUsage, "compareUsage": compareUsage, "chargeStored": chargeStored, "compareStored": compareStored, "repriceStored": repriceStored, "lockTick": lockTick, "selectStoredEvidence": selectStoredEvidence, "entriesInProject": ledger.Subset{Condition: inProject}.Statement()})
}

func TestStatementsKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{"closeInterval": closeInterval, "selectUsage": selectUsage[ByAllocation], "by day": selectUsage[ByDay], "selectIntervals": selectIntervals, "selectSpent": selectSpent, "selectCosts": selectCosts, "selectBurn": selectBurn})
}

// The entries of a project are one statement, whose parameters do not grow with the allocations.
func TestEntriesOfAProjectAreOneStatement(t *testing.T) {
	t.Parallel()
	d, err := pgtest.Tx(t).Prepare(t.Context(), "", ledger.Subset{Condition: inProject}.Statement())
	if err != nil || len(d.ParamOIDs) != 8 || slices.Contains(d.ParamOIDs, pgtype.UUIDArrayOID) {
		t.Errorf("%v, %v", d, err)
	}
}
