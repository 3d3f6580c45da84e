package preview

import (
	"math/big"
	"slices"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/money"
)

// gib720 is the unit of prices of files, in bytes and hours.
var gib720 = big.NewInt((1 << 30) * 720)

// storageBurn adds the change of the cost per hour of all files. Only the default storage class has files. Those of tenants
// with a balance in another currency stay at their price, which the preview does not know.
func (e effect) storageBurn(burn *book) {
	var before, after desired.StorageClass
	for _, p := range slices.Concat(e.changed, e.adopted) {
		before, after = defaultOf(p.Old, before), defaultOf(p.New, after)
	}
	for _, o := range e.deleted {
		before = defaultOf(o, before)
	}
	for _, o := range e.created {
		after = defaultOf(o, after)
	}
	if before.Default {
		burn.add(before.Price.Currency, -e.storagePerHour(burn, before))
	}
	if after.Default {
		burn.add(after.Price.Currency, e.storagePerHour(burn, after))
	}
}

func defaultOf(o desired.Object, otherwise desired.StorageClass) desired.StorageClass {
	if spec := specOf[desired.StorageClass](o); o.Kind == desired.KindStorageClass && spec.Default {
		return spec
	}
	return otherwise
}

func (e effect) storagePerHour(burn *book, class desired.StorageClass) money.Minor {
	cost := big.NewInt(class.Price.AmountMinor)
	cost.Mul(cost, big.NewInt(e.inputs.Stored[int64(class.FreeGiB)])).Div(cost, gib720)
	burn.broken = burn.broken || !cost.IsInt64()
	return money.Minor(cost.Int64())
}
