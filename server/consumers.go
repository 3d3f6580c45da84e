package server

import (
	"context"

	"github.com/gpuaas/gpuaas/internal/natsd"
	"github.com/gpuaas/gpuaas/platform/event/consume"
)

// startConsumers starts the consumers of the event streams.
func (s *Server) startConsumers(ctx context.Context) error {
	js, err := natsd.JetStream(s.nats)
	if err != nil {
		return err
	}
	work := s.services[RoleWork]
	db, all := s.pool(RoleWork), append(work.Notifications.Consumers(), work.WebhookEndpoints.Consumers()...)
	runner := &consume.Runner{
		DB: db, JS: js, Hints: s.hints, Environment: s.cfg.Environment, Consumers: all, Metrics: consume.NewMetrics(db, all), Log: s.cfg.Log,
	}
	s.metrics.MustRegister(runner.Metrics)
	s.unlessRestored(ctx, runner.Run)
	return nil
}
