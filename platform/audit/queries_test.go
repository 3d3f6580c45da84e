package audit

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func TestStatementsFitTheSchema(t *testing.T) {
	t.Parallel()
	statements := map[string]string{
		"insertEntry": insertEntry, "selectNewest": selectNewest, "lockSeals": lockSeals, "selectSealedTo": selectSealedTo, "selectStretch": selectStretch,
		"selectRows": selectRows, "selectHeads": selectHeads, "selectHead": selectHead, "insertSeals": insertSeals, "selectSeals": selectSeals,
		"selectUnsealed": selectUnsealed, "selectMonths": selectMonths, "selectMonth": selectMonth, "insertExport": insertExport,
		"selectExports": selectExports, "selectDropped": selectDropped,
	}
	all := everything()
	for bits := range 1 << len(all.conditions()) {
		statements[fmt.Sprintf("search %b", bits)] = some(all, bits)
	}
	parts := Query{Action: "b.", Target: uuid.NewString(), Limit: 1}
	statements["parts"], _ = parts.statement()
	pgtest.Prepare(t, []string{"audit_logs", "audit_seals", "audit_exports"}, statements)
}

// Row-level security leaves each search the index of its filter.
func TestSearchKeepsItsIndexes(t *testing.T) {
	t.Parallel()
	statements := map[string]string{}
	for bit, name := range []string{"tenant", "actor", "action", "target"} {
		statements[name] = some(everything(), 1<<bit)
	}
	statements["all"] = some(everything(), 0)
	pgtest.KeepIndexes(t, statements)
}

func everything() Query {
	return Query{
		Tenant: ids.New[ids.Tenant](), Actor: "a", Action: "b", Target: "c", From: time.Unix(1, 0), To: time.Unix(2, 0),
		After: Place{At: time.Unix(1, 0), ID: uuid.Must(uuid.NewV7())}, Limit: 1,
	}
}

// some is the search with those conditions whose bits are set.
func some(q Query, bits int) string {
	for i, drop := range []func(){
		func() { q.Tenant = ids.Tenant{} }, func() { q.Actor = "" }, func() { q.Action = "" }, func() { q.Target = "" },
		func() { q.From = time.Time{} }, func() { q.To = time.Time{} }, func() { q.After = Place{} },
	} {
		if bits&(1<<i) == 0 {
			drop()
		}
	}
	sql, _ := q.statement()
	return sql
}
