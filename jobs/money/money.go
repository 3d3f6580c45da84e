// Package money contains the workers that move money or check it: charges for use, balances, payments and
// automatic top-ups.
package money

import (
	"log/slog"

	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/services"
)

// Deps contains what the workers need.
type Deps struct {
	*services.Services

	Log *slog.Logger
}

// AddWorkers adds the workers of this package.
func AddWorkers(w *river.Workers, d Deps) {
	river.AddWorker(w, &accrue{Deps: d})
	river.AddWorker(w, &checkRunway{Deps: d})
	river.AddWorker(w, &checkLedger{Deps: d})
	river.AddWorker(w, &paymentEvent{Deps: d})
	river.AddWorker(w, &paymentRefund{Deps: d})
	river.AddWorker(w, &paymentSweep{Deps: d})
	river.AddWorker(w, &findTopUps{Deps: d})
	river.AddWorker(w, &topUp{Deps: d})
}
