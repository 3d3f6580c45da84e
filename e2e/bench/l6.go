package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// owed is how many transfers a balance adds up beside its checkpoint: the passes
// of ten minutes at the shortest window that policy allows.
const owed = 60

// limitedCreate compares the statements of one create with the same ones less
// those that hold it against caps, limits and the balance. The locks stay in both:
// without them there is no create.
func limitedCreate(ctx context.Context, l *lab) ([]row, error) {
	n := l.scaled(creates, 10*connections) / connections * connections
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := l.stall(ctx, "l6")
	if err != nil {
		return nil, err
	}
	defer func() { cancel(); s.stop() }()
	if err := l.exec(ctx, s.url, fmt.Sprintf(`INSERT INTO ledger_transfers (id, kind, reference, org_id, amount_minor)
		SELECT gen_random_uuid(), 'usage', n || ' ' || id, org_id, -1 FROM ledger_accounts, generate_series(1, %d) AS n WHERE name = 'balance'`, owed), `VACUUM ANALYZE ledger_transfers`); err != nil {
		return nil, err
	}
	whole, err := s.capture(ctx)
	if err != nil {
		return nil, err
	}
	bare := whole.without("FROM ledger_accounts a", "count(*) FILTER (WHERE user_id")
	if len(bare) != len(whole)-2 {
		return nil, fmt.Errorf("of %d statements of a create %d are not those that judge it", len(whole), len(bare))
	}
	ours, err := l.pgbench(ctx, s.url, "judged", whole.pipelined(), n)
	if err != nil {
		return nil, err
	}
	peer, err := l.pgbench(ctx, s.url, "unjudged", bare.pipelined(), n)
	if err != nil {
		return nil, err
	}
	if err := s.sameRows(ctx, n, peer); err != nil {
		return nil, err
	}
	p, err := l.alternate(ctx, leastPairs, s.reset, ours, peer)
	if err != nil {
		return nil, err
	}
	r := p.row("L6", "statements of a create / without caps, limits and balance", n).atMost(1.1)
	r.Note = fmt.Sprintf("%d creates a run over %d connections, %d transfers behind each balance", n, connections, owed)
	return []row{r}, nil
}

// without leaves out the statements in which one of the texts stands.
func (s script) without(texts ...string) script {
	return slices.DeleteFunc(slices.Clone(s), func(one statement) bool {
		return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(one.sql, text) })
	})
}
