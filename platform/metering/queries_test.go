package metering

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"usage_records", "usage_changes", "usage_ticks"}, map[string]string{
		"openInterval":  openInterval,
		"closeInterval": closeInterval,
		"lockAccrual":   lockAccrual,
		"insertTick":    insertTick,
		"selectUsage":   selectUsage,
		"selectCosts":   selectCosts,
		"selectBurn":    selectBurn,
	})
	// Half of this one is the ledger's text.
	pgtest.Prepare(t, []string{"usage_records", "usage_changes", "usage_ticks", "ledger_accounts", "ledger_transfers", "ledger_entries"},
		map[string]string{"chargeUsage": chargeUsage})
}

func TestStatementsKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{"closeInterval": closeInterval, "selectUsage": selectUsage, "selectCosts": selectCosts, "selectBurn": selectBurn})
}
