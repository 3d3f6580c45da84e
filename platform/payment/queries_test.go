package payment

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

var tables = []string{"payment_customers", "payment_sessions", "payment_sweeps", "stripe_events", "stripe_payments", "refund_requests", "payment_disputes"}

// apiQueries lists the statements that the API's role runs, under row-level security.
var apiQueries = map[string]string{
	"selectCustomer": selectCustomer, "selectUnanswered": selectUnanswered, "abandonRequest": abandonRequest, "giveUpSession": giveUpSession,
	"selectSession": selectSession, "selectAnySession": selectAnySession, "selectSessions": selectSessions, "selectPending": selectPending,
	"lockSession": lockSession, "moveSession": moveSession, "checkSession": checkSession, "openSession": openSession,
	"selectNamedPayment": selectNamedPayment, "selectBearingPayment": selectBearingPayment, "takeFromPayment": takeFromPayment,
	"selectRefund": selectRefund, "selectRefunds": selectRefunds, "selectAllRefunds": selectAllRefunds, "selectDisputes": selectDisputes,
	"nameCharge": nameCharge,
}

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, tables, apiQueries)
	pgtest.Prepare(t, tables, map[string]string{
		"insertCustomer": insertCustomer, "insertSession": insertSession, "selectOpenCharge": selectOpenCharge, "lockClaimed": lockClaimed,
		"insertEvent": insertEvent, "selectEvent": selectEvent, "lockEvent": lockEvent, "markEvent": markEvent,
		"selectTotals": selectTotals, "insertPayment": insertPayment, "lockPayment": lockPayment, "withdrawPayment": withdrawPayment, "lockDispute": lockDispute, "putDispute": putDispute,
		"selectSweep": selectSweep, "putSweep": putSweep, "selectOverdue": selectOverdue, "endUnopened": endUnopened,
		"selectForgottenEvents": selectForgottenEvents, "selectForgottenRefunds": selectForgottenRefunds,
		"giveToPayment": giveToPayment, "insertRefund": insertRefund, "lockRefund": lockRefund, "selectCardCharges": selectCardCharges,
		"settleRefund": recordRefund, "nameRefund": nameRefund,
	})
}

func TestStatementsKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, apiQueries)
}
