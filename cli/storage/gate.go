package storage

import (
	"io"
	"sync"
)

// gate is a reader that can be ended. A command of SSH that has ended may leave its reader in use.
type gate struct {
	mu    sync.Mutex
	r     io.Reader
	ended bool
}

func (g *gate) Read(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return 0, io.EOF
	}
	return g.r.Read(b)
}

// end waits for the present Read. There is none after it.
func (g *gate) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
}
