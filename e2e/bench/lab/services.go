package lab

import (
	"log/slog"
	"time"

	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/payment"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/services"
)

// Services builds the services of a role as the server does. The caps are too high to be reached.
func Services(db pg.Pool, hints *hint.Bus, log *slog.Logger) (*services.Services, error) {
	s, err := services.New(services.Config{
		DB: db, Policies: &policies.Client{DB: db, Hints: hints, Log: log}, Hints: hints, Naming: ids.DefaultNaming, Log: log,
		ReleaseKeys: func() map[string][]byte { return nil }, PaymentMetrics: payment.NewMetrics(), PublicURL: func() string { return "https://gpuaas.bench" },
	})
	if err != nil {
		return nil, err
	}
	s.Allocations.Limits = func(identity.Caller) allocation.Limits {
		return allocation.Limits{PerUser: 1000, PerProject: 10_000, PerTenant: 100_000, MaxGPUs: 8, MinimumRunway: time.Hour}
	}
	return s, nil
}
