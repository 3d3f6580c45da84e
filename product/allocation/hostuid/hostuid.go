// Package hostuid reserves the uids of logins.
package hostuid

import (
	"context"
	"fmt"
	"sync"

	"github.com/gpuaas/gpuaas/internal/pg"
)

// Blocks returns login uids from blocks that the sequence reserves, so a request needs no round trip. No uid is
// used twice, so files of an earlier tenant never belong to a later one. A crash wastes the rest of a block.
type Blocks struct {
	mu        sync.Mutex
	free, end int
}

// uidBlock equals the sequence's increment in the schema.
const uidBlock = 100

// Next returns a uid.
func (h *Blocks) Next(ctx context.Context, q pg.Queryer) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.free == h.end {
		var first int
		if err := q.QueryRow(ctx, `SELECT nextval('allocation_host_uid')`).Scan(&first); err != nil {
			return 0, fmt.Errorf("reserving login uids: %w", err)
		}
		h.free, h.end = first, first+uidBlock
	}
	h.free++
	return h.free - 1, nil
}
