package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/platform/event/consume"
)

const (
	// perSecond is the load of O6.
	perSecond = 1_000
	// seconds is the length of a run.
	seconds = 5
)

// interval is the time between two events. Each is a message to every endpoint.
const interval = time.Second * (endpoints - hanging) / perSecond

// events is the number of events of a run.
func (b *bench) events() int { return b.lab.Scaled(seconds*perSecond, 200) / (endpoints - hanging) }

func (b *bench) pacedTotal() int { return b.events() * (endpoints - hanging) }

// empty stores the endpoints without deliveries.
func (b *bench) empty(ctx context.Context) error {
	if err := b.fresh(ctx, 0); err != nil {
		return err
	}
	return b.lab.Exec(ctx, b.url, `TRUNCATE webhook_deliveries`)
}

// pace calls send for each event at its time.
func (b *bench) pace(send func() error) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for range b.events() {
		if err := send(); err != nil {
			return err
		}
		<-tick.C
	}
	return nil
}

// paced dispatches events as their consumer does.
func (b *bench) paced(ctx context.Context) (time.Duration, error) {
	all := b.services.WebhookEndpoints.Consumers()
	consumer := all[slices.IndexFunc(all, func(c consume.Consumer) bool { return c.Stream == event.StreamProvisioning })]
	return b.started(ctx, func(*river.Client[pgx.Tx]) (time.Duration, error) {
		began := clock.Clock{}.Now()
		err := b.pace(func() error {
			e := event.Event{
				ID: ids.New[ids.Event](), Type: "provisioning.active", OccurredAt: clock.Clock{}.Now(), Version: event.Version, Tenant: ids.From[ids.Tenant](tenant),
				Payload: json.RawMessage(`{"allocation_id":"01990f41-0000-7000-8000-000000000040","slots":1,"price_per_hour_minor":289,"currency":"EUR"}`),
			}
			return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error {
				if _, err := consumer.Effect(ctx, tx, e); err != nil {
					return fmt.Errorf("dispatching an event: %w", err)
				}
				return nil
			})
		})
		if err == nil {
			err = b.await(ctx, int64(b.pacedTotal()))
		}
		return clock.Clock{}.Now().Sub(began), err
	})
}

// barePaced sends the requests of each event with one client.
func (b *bench) barePaced(ctx context.Context) (time.Duration, error) {
	began := clock.Clock{}.Now()
	err := b.pace(func() error {
		_, err := b.send(ctx, endpoints-hanging)
		return err
	})
	return clock.Clock{}.Now().Sub(began), err
}
