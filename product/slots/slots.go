// Package slots owns slots and the claims on them. A slot becomes clean by a proof only, never by a
// state. Placement is a pure function in place.
package slots

import (
	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/product/slots/place"
)

// Service reads and claims the slots of nodes.
type Service struct {
	DB    pg.Pool
	Hints *hint.Bus
	// Rules returns the policies of placements.
	Rules func() place.Rules

	market market
}

// Wake notifies the control loop, and retries requests that wait for a slot.
func (s *Service) Wake() {
	s.market.invalidate()
	s.Hints.Send(desired.HintDue)
	s.Hints.Send(HintSlots)
}
