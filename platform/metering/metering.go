// Package metering measures how long each allocation was in use, and from that
// what it has come to. It owns intervals, the ticks that cut time for all of them,
// and the passes that charge a tick. It decides neither when an interval opens nor
// what a GPU costs: the price is kept from the start. It takes no time from anyone
// but the database.
//
// What is due after t seconds is floor(price × gpus × t ÷ 3600), and a pass
// charges due(end of the tick) − due(its beginning), so any way of cutting time
// sums to the same amount.
package metering

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Cause is why an interval begins or ends.
type Cause string

// An interval opens by the first or the second of these, closes by one of the
// others; a price change does both.
const (
	ObservedReady    Cause = "observed_ready"
	ObservedAgain    Cause = "observed_again"
	PriceChanged     Cause = "price_changed"
	ReleaseRequested Cause = "release_requested"
	ObservationStale Cause = "observation_stale"
	NodeUnhealthy    Cause = "node_unhealthy"
)

// Observation is what was seen of an allocation when its interval changed. It is
// kept with the interval, so that a charge can be traced to a node's report.
type Observation struct {
	Node       ids.Node  `json:"node_id"`
	Fence      int64     `json:"fence"`
	Generation int64     `json:"generation"`
	Boot       int64     `json:"boot,omitempty"`
	Sequence   int64     `json:"sequence,omitempty"`
	SeenAt     time.Time `json:"seen_at"`
}

// Interval is a stretch of use that begins.
type Interval struct {
	Allocation ids.Allocation
	Tenant     ids.Tenant
	Project    ids.Project
	User       ids.User
	SKU        string
	GPUs       int
	PriceMinor money.Minor // per GPU and hour
	Currency   string
}

// Service accrues and reads.
type Service struct {
	DB pg.Pool

	waits time.Duration // in a test, for another one
}

// QueueOpen begins an interval in the caller's transaction, because of what was
// seen. One that is open already goes on as it is.
func QueueOpen(b *pgx.Batch, i Interval, by Cause, seen *Observation) {
	b.Queue(openInterval, uuid.Must(uuid.NewV7()), i.Allocation.UUID, i.Tenant.UUID, i.Project.UUID, i.User.UUID,
		i.SKU, i.GPUs, i.PriceMinor, i.Currency, by, seen)
}

// QueueClose ends the allocation's open interval, if there is one. Nothing needs
// to be seen for it where a person asked.
func QueueClose(b *pgx.Batch, a ids.Allocation, by Cause, seen *Observation) {
	b.Queue(closeInterval, a.UUID, by, seen)
}
