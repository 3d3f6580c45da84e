// Package metering measures the duration of use of each allocation and its cost. It owns intervals, the
// ticks that cut time for all of them, and the passes that charge a tick. It does not decide when an
// interval opens or what a GPU costs: an interval stores the price of its start. All times are of the
// database's clock.
//
// The amount due after t seconds is ⌊price × gpus × t ÷ 3600⌋, and a pass charges due(end of the
// tick) − due(its beginning). Every way of cutting time therefore sums to the same amount.
package metering

import (
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/money"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Cause is the reason for which an interval begins or ends.
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

// Observation is the observed state of an allocation when its interval changed. It is stored with the
// interval, so that a charge can be traced to a node's report.
type Observation struct {
	Node       ids.Node  `json:"node_id"`
	Fence      int64     `json:"fence"`
	Generation int64     `json:"generation"`
	Boot       int64     `json:"boot,omitempty"`
	Sequence   int64     `json:"sequence,omitempty"`
	ObservedAt time.Time `json:"seen_at"`
	// Origin is the signature of the node under the report that the state is from, with its bytes and its key. Its sequence
	// is at most Sequence: reports without a change follow it.
	Origin json.RawMessage `json:"origin,omitempty"`
}

// Interval contains the values of a usage interval at its start. The price is copied, so that a later price change
// does not alter usage that is already measured.
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

// QueueOpen opens an interval in the caller's transaction, because of an observation. An open interval
// stays unchanged.
func QueueOpen(b *pgx.Batch, i Interval, by Cause, seen *Observation) {
	b.Queue(openInterval, uuid.Must(uuid.NewV7()), i.Allocation.UUID, i.Tenant.UUID, i.Project.UUID, i.User.UUID,
		i.SKU, i.GPUs, i.PriceMinor, i.Currency, by, seen)
}

// QueueClose closes the allocation's open interval, if there is one. A release by a user needs no
// observation.
func QueueClose(b *pgx.Batch, a ids.Allocation, by Cause, seen *Observation) {
	b.Queue(closeInterval, a.UUID, by, seen)
}
