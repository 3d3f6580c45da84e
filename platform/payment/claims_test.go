package payment

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementOfClaimsFitsTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"refund_requests", "payment_disputes"}, map[string]string{"selectUndecided": selectUndecided})
}
