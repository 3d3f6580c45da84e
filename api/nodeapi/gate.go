package nodeapi

import (
	"net"
	"sync"
)

// gate limits how many handshakes compute at the same time. A handshake costs a millisecond or two of a
// core: ten thousand at once would delay every other response until the last is done.
type gate struct {
	mu    sync.Mutex
	free  int
	begun []chan struct{} // first in, first out
	fresh []chan struct{}
}

func newGate(width int) *gate { return &gate{free: width} }

// enter blocks until a handshake may compute. Handshakes that have begun go first: a finished
// handshake reconnects a node, and many unfinished ones would all reach their deadline.
func (g *gate) enter(begun bool) {
	g.mu.Lock()
	if g.free > 0 {
		g.free--
		g.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	if begun {
		g.begun = append(g.begun, turn)
	} else {
		g.fresh = append(g.fresh, turn)
	}
	g.mu.Unlock()
	<-turn
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, queue := range []*[]chan struct{}{&g.begun, &g.fresh} {
		if len(*queue) > 0 {
			close((*queue)[0])
			*queue = (*queue)[1:]
			return
		}
	}
	g.free++
}

// gated leaves the gate while it waits for its peer, so that a silent peer does not block others.
type gated struct {
	net.Conn

	gate     *gate // nil once the handshake is over
	begun    bool
	admitted bool
}

func (g *gated) Read(p []byte) (int, error) {
	if g.gate == nil {
		return g.Conn.Read(p)
	}
	g.leave()
	n, err := g.Conn.Read(p)
	if err == nil {
		g.gate.enter(g.begun)
		g.begun, g.admitted = true, true
	}
	return n, err
}

func (g *gated) leave() {
	if g.admitted {
		g.admitted = false
		g.gate.leave()
	}
}

func (g *gated) finish() {
	g.leave()
	g.gate = nil
}
