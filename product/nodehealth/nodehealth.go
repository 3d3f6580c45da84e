// Package nodehealth owns the health reports of nodes and GPUs. It merges the values of all sources,
// quarantines slots and cordons nodes by them, and limits how many at once.
package nodehealth

import (
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/policies"
	"github.com/gpuaas/gpuaas/product/fleet"
	"github.com/gpuaas/gpuaas/product/slots"
)

// Service classifies what nodes report of their health, and quarantines slots and cordons nodes by it.
type Service struct {
	*fleet.Service
	// Rules returns what follows from faults on nodes of a SKU.
	Rules func(sku string) FaultRules
}

// New returns a service and the services under it over one pool, with the defaults of the policies. The caller sets the
// other fields that it needs.
func New(db pg.Pool, hints *hint.Bus) *Service {
	defaults := &policies.Client{}
	return &Service{Rules: FaultRulesFrom(defaults), Service: &fleet.Service{
		TokenLife: fleet.TokenLifeFrom(defaults), Grace: fleet.DrainGraceFrom(defaults), Service: &slots.Service{DB: db, Hints: hints, Rules: slots.RulesFrom(defaults)},
	}}
}
