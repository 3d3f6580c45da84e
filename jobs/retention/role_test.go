package retention

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/pgtest"
)

// The role of the workers has the rights for each table.
func TestTheRoleOfTheWorkersRemovesOldRows(t *testing.T) {
	t.Parallel()
	db := pgtest.As(t, pgtest.Clone(t), "gpuaas_work")
	if err := Make(t.Context(), db); err != nil {
		t.Error(err)
	}
	for _, m := range Months() {
		if _, err := db.Exec(t.Context(), `SELECT drop_partitions($1, $2)`, m.Table, time.Now().AddDate(-3, 0, 0)); err != nil {
			t.Errorf("%s: %v", m.Table, err)
		}
	}
	for _, b := range batches() {
		if _, err := b.remove(t.Context(), db, 90*day, batchRows); err != nil {
			t.Errorf("%s: %v", b.table, err)
		}
	}
}
