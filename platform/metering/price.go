package metering

import (
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/money"
)

// QueueReprice closes the open intervals of an SKU whose price has changed, and opens the next ones in
// the same second at the new price. Earlier usage is charged at the old price.
func QueueReprice(b *pgx.Batch, sku, currency string, price money.Minor) {
	b.Queue(repriceIntervals, sku, currency, price)
}
