package preview_test

import (
	"testing"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/revision"
	"github.com/gpuaas/gpuaas/gitops/preview"
	"github.com/gpuaas/gpuaas/internal/money"
)

func storageClass(name string, price int64, free int, isDefault bool) desired.Object {
	return object(desired.KindStorageClass, name, 9, desired.StorageClass{DisplayName: name, Price: desired.Price{Currency: "EUR", AmountMinor: price}, FreeGiB: free, RetentionDays: 14, Default: isDefault})
}

// A plan shows what the price of the default storage class changes in the burn rate of all tenants. It needs an approval.
func TestAPlanShowsTheCostOfFiles(t *testing.T) {
	t.Parallel()
	const gib = int64(1) << 30
	stored := map[int64]int64{0: 720_000 * gib, 5: 360_000 * gib}
	for name, c := range map[string]struct {
		d    revision.Difference
		want money.Minor // the change per hour
	}{
		"a higher price":          {revision.Difference{Changed: []revision.Pair{pair(storageClass("a", 2, 0, true), storageClass("a", 3, 0, true))}}, 1000},
		"more free bytes":         {revision.Difference{Changed: []revision.Pair{pair(storageClass("a", 2, 0, true), storageClass("a", 2, 5, true))}}, -1000},
		"the first class":         {revision.Difference{Created: []desired.Object{storageClass("a", 2, 0, true)}}, 2000},
		"a class without files":   {revision.Difference{Created: []desired.Object{storageClass("a", 2, 0, false)}}, 0},
		"another default":         {revision.Difference{Changed: []revision.Pair{pair(storageClass("a", 2, 0, true), storageClass("a", 2, 0, false))}, Created: []desired.Object{storageClass("b", 5, 0, true)}}, 3000},
		"the last class is gone":  {revision.Difference{Deleted: []desired.Object{storageClass("a", 2, 0, true)}}, -2000},
		"a price of 128 bits":     {revision.Difference{Created: []desired.Object{storageClass("a", 1_000_000_000, 0, true)}}, 1_000_000_000_000},
		"another name is no cost": {revision.Difference{Changed: []revision.Pair{pair(storageClass("a", 2, 0, true), storageClass("b", 2, 0, true))}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := preview.Make(change(c.d), preview.Inputs{Stored: stored, Burn: map[string]money.Minor{"EUR": 5000}}, rules())
			change := money.Minor(0)
			for _, m := range p.Money {
				change += m.BurnAfter - m.BurnBefore
			}
			if change != c.want {
				t.Errorf("the burn rate changes by %d, want %d", change, c.want)
			}
			if len(preview.Sensitive(c.d)) == 0 {
				t.Error("it needs no approval")
			}
		})
	}
}
