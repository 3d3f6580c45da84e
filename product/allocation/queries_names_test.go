package allocation

import (
	"testing"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsOfNamesFitTheSchema(t *testing.T) {
	t.Parallel()
	pgtest.Prepare(t, []string{"allocations"}, map[string]string{"selectNames": selectNames, "selectLabels": selectLabels, "sumCommitted": sumCommitted})
}

func TestStatementsOfNamesKeepTheirIndexesUnderTheAPIsRole(t *testing.T) {
	t.Parallel()
	pgtest.KeepIndexes(t, map[string]string{"selectNames": selectNames, "selectLabels": selectLabels, "sumCommitted": sumCommitted})
}
