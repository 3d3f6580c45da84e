package observed

import "context"

// Renew is one turn of Run.
func (l *Leases) Renew(ctx context.Context) error { return l.renew(ctx) }

// Covered returns the number of nodes that the lease covers.
func (l *Leases) Covered() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}
