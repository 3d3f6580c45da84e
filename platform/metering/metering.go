// Package metering measures how long each allocation was in use, and from that
// what it has come to. It owns intervals and the passes that charge them. It
// decides neither when an interval opens nor what a GPU costs: the price is kept
// from the start. It takes no time from anyone but the database.
//
// What is due after t seconds is floor(price × gpus × t ÷ 3600), and a pass
// charges due(now) − due(last pass), so any way of cutting time sums to the same
// amount.
package metering

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Interval is a stretch of use that begins.
type Interval struct {
	Allocation ids.Allocation
	Tenant     ids.Tenant
	Project    ids.Project
	SKU        string
	GPUs       int
	PriceMinor money.Minor // per GPU and hour
	Currency   string
}

// Service accrues and reads.
type Service struct{ DB pg.Pool }

// QueueOpen begins an interval in the caller's transaction. One that is open
// already goes on as it is.
func QueueOpen(b *pgx.Batch, i Interval) { queueOpen(b, i, nil) }

func queueOpen(b *pgx.Batch, i Interval, at *int64) {
	b.Queue(openInterval, uuid.Must(uuid.NewV7()), i.Allocation.UUID, i.Tenant.UUID, i.Project.UUID,
		i.SKU, i.GPUs, i.PriceMinor, i.Currency, at)
}

// QueueClose ends the allocation's open interval, if there is one.
func QueueClose(b *pgx.Batch, a ids.Allocation) { queueClose(b, a, nil) }

func queueClose(b *pgx.Batch, a ids.Allocation, at *int64) {
	b.Queue(closeInterval, a.UUID, at)
}

// Usage is what one allocation used within a window of time.
type Usage struct {
	Allocation ids.Allocation
	Project    ids.Project
	SKU        string
	GPUs       int
	PriceMinor money.Minor // per GPU and hour
	Currency   string
	Seconds    int64
	CostMinor  money.Minor // charged already or not yet
	StartedAt  time.Time
	EndedAt    *time.Time // nil while it is in use
}
