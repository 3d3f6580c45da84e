package observed

import "context"

// Renew is one turn of Run.
func (l *Leases) Renew(ctx context.Context) error { return l.renew(ctx) }

// Held is how many nodes are remembered.
func (l *Leases) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}
