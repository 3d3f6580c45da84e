package event

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"outbox_events", "outbox_position", "outbox_failures", "dead_letters"}, map[string]string{
		"insertEvent":    insertEvent,
		"selectTenant":   selectTenant,
		"selectAll":      selectAll,
		"selectStream":   selectStream,
		"selectPosition": selectPosition,
		"selectHorizon":  selectHorizon,
		"tryLead":        tryLead,
		"ensurePosition": ensurePosition,
		"readPosition":   readPosition,
		"readAcked":      readAcked,
		"movePosition":   movePosition,
		"countFailure":   countFailure,
		"markDead":       markDead,
		"selectBacklog":  selectBacklog,
		"selectEvent":    selectEvent,
		"selectRetries":  selectRetries,
		"endRetry":       endRetry,
	})
}

func TestStatementsKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{"selectTenant": selectTenant, "selectAll": selectAll, "selectPosition": selectPosition, "selectEvent": selectEvent})
}
