package jobs_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/jobs"
	"github.com/gpuaas/gpuaas/services"
)

// A part that the wiring forgot is an error at the start that names it, and not a panic of the first job that needs it.
func TestWorkersDemandTheirParts(t *testing.T) {
	t.Parallel()
	whole := setup(t).deps
	for name, remove := range map[string]func(*jobs.Deps, *services.Services){
		"Services.Billing": func(_ *jobs.Deps, s *services.Services) { s.Billing = nil },
		"Services.Reports": func(_ *jobs.Deps, s *services.Services) { s.Reports = nil },
		"Deps.Tasks":       func(d *jobs.Deps, _ *services.Services) { d.Tasks = nil },
		"Deps.Log":         func(d *jobs.Deps, _ *services.Services) { d.Log = nil },
		"Policy.Logins":    func(d *jobs.Deps, _ *services.Services) { d.Logins = nil },
		"Deps.Services":    func(d *jobs.Deps, _ *services.Services) { d.Services = nil },
	} {
		d, s := *whole, *whole.Services
		d.Services = &s
		remove(&d, &s)
		if _, err := jobs.NewClient(nil, &d, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), name+" is missing") {
			t.Errorf("without %s: %v", name, err)
		}
	}
}
