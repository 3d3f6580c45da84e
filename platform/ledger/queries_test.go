package ledger

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"ledger_accounts", "ledger_transfers", "ledger_entries", "ledger_checkpoints"}, map[string]string{
		"ensureAccounts":   ensureAccounts,
		"selectTotals":     selectTotals,
		"selectBalance":    selectBalance,
		"selectBalances":   selectBalances,
		"selectBalanceAt":  selectBalanceAt,
		"selectEntries":    Subset{}.Statement(),
		"sumByKind":        sumByKind,
		"insertTransfer":   insertTransfer,
		"selectLastID":     selectLastID,
		"sealAccounts":     sealAccounts,
		"selectDerived":    selectDerived,
		"selectSeals":      selectSeals,
		"selectLinks":      selectLinks,
		"selectUnbalanced": selectUnbalanced,
	})
}

func TestStatementsKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{
		"selectBalance": selectBalance, "selectBalances": selectBalances, "selectBalanceAt": selectBalanceAt,
	})
}
