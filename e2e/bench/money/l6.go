package money

import (
	"context"
	"fmt"

	"github.com/gpuaas/gpuaas/e2e/bench/api"
	"github.com/gpuaas/gpuaas/e2e/bench/lab"
)

// owed is the number of transfers that a balance adds to its checkpoint: the passes of ten minutes
// with the shortest window that the policy allows.
const owed = 60

// LimitedCreate compares the statements of one create with the same statements without the checks
// of caps, limits and balance. Both contain the locks, because no create works without them.
func LimitedCreate(ctx context.Context, l *lab.Lab) ([]lab.Row, error) {
	n := l.Scaled(api.Creates, 10*lab.Connections) / lab.Connections * lab.Connections
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := api.Stall(ctx, l, "l6")
	if err != nil {
		return nil, err
	}
	defer func() { cancel(); s.Stop() }()
	if err := l.Exec(ctx, s.Url, fmt.Sprintf(`INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor)
		SELECT gen_random_uuid(), 'usage', n || ' ' || id, org_id, -1 FROM ledger_accounts, generate_series(1, %d) AS n WHERE name = 'balance'`, owed), `VACUUM ANALYZE ledger_transfers`); err != nil {
		return nil, err
	}
	whole, err := s.Capture(ctx)
	if err != nil {
		return nil, err
	}
	bare := whole.Without("FROM ledger_balances", "count(*) FILTER (WHERE user_id")
	if len(bare) != len(whole)-2 {
		return nil, fmt.Errorf("of %d statements of a create %d are not its checks", len(whole), len(bare))
	}
	ours, err := l.Pgbench(ctx, s.Url, "judged", whole.Pipelined(), n)
	if err != nil {
		return nil, err
	}
	peer, err := l.Pgbench(ctx, s.Url, "unjudged", bare.Pipelined(), n)
	if err != nil {
		return nil, err
	}
	if err := s.SameRows(ctx, n, peer); err != nil {
		return nil, err
	}
	p, err := l.Alternate(ctx, lab.LeastPairs, s.Reset, ours, peer)
	if err != nil {
		return nil, err
	}
	r := p.Row("L6", "statements of a create / without caps, limits and balance", n).AtMost(1.1)
	r.Note = fmt.Sprintf("%d creates a run over %d connections, %d transfers behind each balance", n, lab.Connections, owed)
	return []lab.Row{r}, nil
}
