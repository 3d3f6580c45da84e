package api

import (
	"context"
	"fmt"
	"os"

	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// Capture records the statements of one create in the log of PostgreSQL. The creates before it fill
// the caches of the server and prepare its statements.
func (s *apiServer) Capture(ctx context.Context) (lab.Script, error) {
	warm := lab.LoadParameters{Address: s.address, Count: 4 * lab.Connections, Connections: lab.Connections, Tenants: lab.Stalls.Tenants, Keys: "warm"}
	if _, err := sendLoad(ctx, s.lab, warm); err != nil {
		return nil, err
	}
	// All creates are of one tenant, so that the server has cached the token and project of the
	// last one.
	log, err := s.logged(ctx, lab.LoadParameters{Address: s.address, Count: 4, Connections: 1, Tenants: 1, Keys: lab.Captured})
	if err != nil {
		return nil, err
	}
	return lab.Typed(ctx, s.Url, lab.LastCreate(lab.Entries(log)))
}

// logged returns what PostgreSQL logs of the statements of a load.
func (s *apiServer) logged(ctx context.Context, load lab.LoadParameters) (string, error) {
	if err := s.lab.Exec(ctx, s.Url, `ALTER SYSTEM SET log_statement = 'all'`, `SELECT pg_reload_conf()`); err != nil {
		return "", err
	}
	lab.Rest(ctx, s.lab)
	from, err := os.Stat(s.lab.Cluster.LogFile())
	if err != nil {
		return "", fmt.Errorf("reading the database's log: %w", err)
	}
	if _, err := sendLoad(ctx, s.lab, load); err != nil {
		return "", err
	}
	if err := s.lab.Exec(ctx, s.Url, `ALTER SYSTEM RESET log_statement`, `SELECT pg_reload_conf()`); err != nil {
		return "", err
	}
	return lab.Tail(s.lab.Cluster.LogFile(), from.Size())
}
