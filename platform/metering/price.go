package metering

import (
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/money"
)

// QueueReprice ends the open intervals of a SKU whose price is another one now,
// and begins the next in the same second at the new price. What was used before
// keeps the price that it was used at.
func QueueReprice(b *pgx.Batch, sku, currency string, price money.Minor) {
	b.Queue(repriceIntervals, sku, currency, price)
}
