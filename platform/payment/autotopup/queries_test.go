package autotopup

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

var apiQueries = map[string]string{
	"selectMandate": selectMandate, "selectBegun": selectBegun, "selectConfirmed": selectConfirmed, "selectMandates": selectMandates,
	"openMandate": openMandate, "updateMandate": updateMandate, "selectMonthCharges": selectMonthCharges,
}

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	tables := []string{"payment_mandates", "payment_sessions"}
	pgtest.Prepare(t, tables, apiQueries)
	pgtest.Prepare(t, tables, map[string]string{
		"lockConfirmed": lockConfirmed, "lockActive": lockActive, "lockMandate": lockMandate, "lockLive": lockLive, "insertMandate": insertMandate, "countFailures": countFailures, "delayCharge": delayCharge,
		"insertCharge": insertCharge, "selectDue": selectDue, "selectExists": selectExists,
	})
}

func TestStatementsKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, apiQueries)
}
