package payment

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsOfListsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"payment_sessions", "stripe_payments"}, map[string]string{
		"selectAllSessions": selectAllSessions, "selectCredits": selectCredits,
	})
}

func TestStatementsOfListsKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{"selectCredits": selectCredits})
}
