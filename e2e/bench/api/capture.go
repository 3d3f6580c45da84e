package api

import (
	"context"
	"fmt"
	"os"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// Capture has the database write down what one real create sends. The ones before
// it fill the server's caches and prepare its statements.
func (s *stand) Capture(ctx context.Context) (lab.Script, error) {
	warm := lab.LoadOrder{Address: s.address, Count: 4 * lab.Connections, Connections: lab.Connections, Tenants: lab.Stalls.Tenants, Keys: "warm"}
	if _, err := sendLoad(ctx, s.lab, warm); err != nil {
		return nil, err
	}
	if err := s.lab.Exec(ctx, s.Url, `ALTER SYSTEM SET log_statement = 'all'`, `SELECT pg_reload_conf()`); err != nil {
		return nil, err
	}
	lab.Settle(ctx, s.lab)
	from, err := os.Stat(s.lab.Cluster.LogFile())
	if err != nil {
		return nil, fmt.Errorf("reading the database's log: %w", err)
	}
	// Of one tenant, so that the server knows the last one's token and project.
	if _, err := sendLoad(ctx, s.lab, lab.LoadOrder{Address: s.address, Count: 4, Connections: 1, Tenants: 1, Keys: lab.Captured}); err != nil {
		return nil, err
	}
	if err := s.lab.Exec(ctx, s.Url, `ALTER SYSTEM RESET log_statement`, `SELECT pg_reload_conf()`); err != nil {
		return nil, err
	}
	log, err := lab.Tail(s.lab.Cluster.LogFile(), from.Size())
	if err != nil {
		return nil, err
	}
	return lab.Typed(ctx, s.Url, lab.LastCreate(lab.Entries(log)))
}
