package node

import (
	"context"
	"path/filepath"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// gathering is a listener with a crowd of agents.
type gathering struct {
	server, crowd *lab.Part
}

func newGathering(ctx context.Context, l *lab.Lab, kind string, agents int) (g gathering, err error) {
	secrets := filepath.Join(l.Dir, "crowd")
	if g.server, err = l.Part(ctx, "listener", listenerVariable, listenerParameters{kind, secrets}); err != nil {
		return g, err
	}
	address, err := g.server.Do("address")
	if err == nil {
		g.crowd, err = l.Part(ctx, "crowd", crowdVariable, crowdParameters{address.Text, kind, secrets, agents})
	}
	if err == nil {
		_, err = g.crowd.Do("ready")
	}
	if err != nil {
		g.end()
	}
	return g, err
}

func (g gathering) end() {
	if g.crowd != nil {
		g.crowd.End()
	}
	g.server.End()
}
