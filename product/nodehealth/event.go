package nodehealth

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/event"
	"github.com/gpuaas/gpuaas/product/fleet"
)

// The facts about the fleet's health.
const (
	SubjectNodeHealthChanged = "fleet.node_health_changed"
	SubjectSlotQuarantined   = "fleet.slot_quarantined"
	SubjectMassActionStopped = "fleet.mass_action_stopped"
)

// HealthEvent is the payload of fleet.node_health_changed.
type HealthEvent struct {
	Node           string `json:"node_id"`
	Name           string `json:"name"`
	Health         string `json:"health"`
	PreviousHealth string `json:"previous_health"`
	Reason         string `json:"reason"`
}

// QuarantineEvent is the payload of fleet.slot_quarantined.
type QuarantineEvent struct {
	Node   string `json:"node_id"`
	Name   string `json:"name"`
	Slot   string `json:"slot_id"`
	GPU    string `json:"gpu"`
	Reason string `json:"reason"`
}

// StoppedEvent is the payload of fleet.mass_action_stopped.
type StoppedEvent struct {
	Trip    string `json:"trip_id"`
	Blocked int    `json:"blocked"`
	Allowed int    `json:"allowed"`
	Fleet   int    `json:"fleet"`
	Reason  string `json:"reason"`
}

func (s *Service) emitHealth(b *pgx.Batch, id ids.Node, k *nodeState, v verdict) {
	event.Queue(b, event.Draft{
		Stream: event.StreamFleet, Subject: SubjectNodeHealthChanged, Aggregate: "node:" + id.String(), Sequence: k.Version + 1,
		URN:     s.Urn("node", id.String()),
		Payload: HealthEvent{id.String(), k.Name, string(v.Health), k.Health, v.Message},
	})
}

func (s *Service) emitQuarantined(b *pgx.Batch, id ids.Node, k *nodeState, w fleet.SystemHold, slot uuid.UUID) {
	event.Queue(b, event.Draft{
		Stream: event.StreamFleet, Subject: SubjectSlotQuarantined, Aggregate: "hold:" + w.ID.String(), Sequence: 1,
		URN:     s.Urn("slot", slot.String()),
		Payload: QuarantineEvent{id.String(), k.Name, slot.String(), w.GPU, w.Reason},
	})
}

func (s *Service) emitStopped(ctx context.Context, tx pgx.Tx, trip uuid.UUID, held, allowed, fleet int, reason string) error {
	b := &pgx.Batch{}
	event.Queue(b, event.Draft{
		Stream: event.StreamFleet, Subject: SubjectMassActionStopped, Aggregate: "breaker:" + trip.String(), Sequence: 1,
		URN:     s.Urn("breaker", trip.String()),
		Payload: StoppedEvent{trip.String(), held, allowed, fleet, reason},
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("telling that the breaker tripped: %w", err)
	}
	return nil
}
