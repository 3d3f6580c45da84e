package allocation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/platform/metering"
	"github.com/gpuaas/gpuaas/product/allocation"
	"github.com/gpuaas/gpuaas/product/allocation/allocationtest"
)

// The tenant is notified once that its allocation is not confirmed any longer, since when, and that it is not charged; and
// once that it is charged again.
func TestALostGPUAndItsReturnAreEvents(t *testing.T) {
	t.Parallel()
	w := allocationtest.New(t, rich)
	w.Node(t, "node-1", 1)
	a, s := w.Active(t, 1), w.Allocations
	since := time.Now().UTC().Truncate(time.Second)
	for range 2 {
		a = w.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error {
			_, err := s.Pause(t.Context(), tx, a, metering.NodeUnhealthy, metering.Observation{Node: a.Node, ObservedAt: since})
			return err
		})
	}
	for range 2 {
		a = w.Move(t, a.ID, func(tx pgx.Tx, a allocation.Allocation) error {
			return s.Resume(t.Context(), tx, a, metering.Observation{Node: a.Node})
		})
	}
	contract, err := asyncapi.Load()
	must(t, err)
	rows, err := w.DB.Query(t.Context(), `SELECT subject, payload FROM outbox_events WHERE subject IN ('provisioning.degraded', 'provisioning.recovered') ORDER BY seq`)
	must(t, err)
	var got []string
	var subject, payload string
	_, err = pgx.ForEachRow(rows, []any{&subject, &payload}, func() error {
		got = append(got, subject)
		if !strings.Contains(payload, `"node_unhealthy"`) {
			t.Errorf("%s: %s", subject, payload)
		}
		return contract.Payload(subject, []byte(payload))
	})
	must(t, err)
	if text := strings.Join(got, " "); text != "provisioning.degraded provisioning.recovered" {
		t.Errorf("the events are %s", text)
	}
}
