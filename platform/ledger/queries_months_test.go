package ledger

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsOfMonthsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"ledger_accounts", "ledger_transfers", "ledger_entries"}, map[string]string{
		"sumByMonth": sumByMonth, "selectFirst": selectFirst, "selectMovements": selectMovements,
	})
}
