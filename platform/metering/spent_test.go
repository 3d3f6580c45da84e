package metering

import (
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
)

// Usage since a time is cut at that time, charged or not. A recently charged tenant is listed, also
// without an open interval.
func TestSpentSince(t *testing.T) {
	t.Parallel()
	b := setup(t)
	tenant, idle := ids.New[ids.Tenant](), ids.New[ids.Tenant]()
	gone, here := h100(tenant), h100(tenant)
	here.Project = gone.Project
	other := h100(tenant)
	must(t, b.open(t.Context(), gone, t0))
	must(t, b.close(t.Context(), gone.Allocation, t0+7200))
	must(t, b.open(t.Context(), here, t0+1800))
	must(t, b.open(t.Context(), other, t0+1800))
	_, _, err := b.tick(t.Context(), t0+7200)
	must(t, err)
	must(t, b.clock.Set(t.Context(), t0+9000))

	since := time.Unix(t0+3600, 0)
	inProject := owed(gone, 7200) - owed(gone, 3600) + owed(here, 7200) - owed(here, 1800)
	for name, c := range map[string]struct {
		tenant  ids.Tenant
		project ids.Project
		want    int64
	}{
		"of the tenant":    {tenant, ids.Project{}, inProject + owed(other, 7200) - owed(other, 1800)},
		"of a project":     {tenant, gone.Project, inProject},
		"of no project":    {idle, ids.Project{}, 0},
		"of another's one": {idle, gone.Project, 0},
	} {
		got, err := b.SpentSince(t.Context(), b.db, c.tenant, c.project, since)
		if err != nil || got != money.Minor(c.want) {
			t.Errorf("%s: %d, want %d, %v", name, got, c.want, err)
		}
	}
	burns, err := b.BurnsOf(t.Context(), b.db, []ids.Tenant{tenant, idle})
	if err != nil || len(burns) != 1 || burns[tenant] != 2*3*199 {
		t.Errorf("burns %v, %v", burns, err)
	}
	must(t, b.close(t.Context(), here.Allocation, t0+9000))
	must(t, b.close(t.Context(), other.Allocation, t0+9000))
	for range 2 { // between the close and its charge, and after it
		if named, err := b.Charged(t.Context(), b.db); err != nil || len(named) != 1 || named[0] != tenant {
			t.Errorf("charged %v, %v", named, err)
		}
		_, _, err := b.tick(t.Context(), t0+9010)
		must(t, err)
	}
}
