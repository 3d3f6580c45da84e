package fleet

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
)

// Wiring is a node's hardware as people read it.
type Wiring struct {
	Topology    []byte // JSON; null before a first whole report
	Changed     string // how it differs from what was accepted
	Fingerprint string // of what was reported; empty before
}

// Wiring reads the hardware that a node reported last.
func (s *Service) Wiring(ctx context.Context, q pg.Queryer, id ids.Node) (w Wiring, err error) {
	t, changed, err := s.Topology(ctx, q, id)
	if err != nil {
		return Wiring{}, err
	}
	if w.Topology, err = json.Marshal(t); err != nil {
		return Wiring{}, fmt.Errorf("encoding the topology of %s: %w", id, err)
	}
	if w.Changed = changed; t != nil {
		w.Fingerprint = t.Hardware().Fingerprint()
	}
	return w, nil
}
