package metering

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// BenchmarkL1Accrual compares a pass over open intervals with a plain INSERT …
// SELECT of the same rows into a table with the same partitions and indexes,
// alternating. L1_INTERVALS sets how many; the goal is stated for a million.
func BenchmarkL1Accrual(b *testing.B) {
	n := 100_000
	if text := os.Getenv("L1_INTERVALS"); text != "" {
		n, _ = strconv.Atoi(text)
	}
	s := setup(b)
	ctx := context.WithoutCancel(b.Context())
	prepare := []string{
		`SELECT ledger_ensure_accounts(md5('t' || i)::uuid, 'EUR') FROM generate_series(0, 999) i`,
		`INSERT INTO usage_records (id, allocation_id, org_id, project_id, sku, gpus, price_minor, currency, account_id, start_s)
			SELECT md5('r' || i)::uuid, md5('a' || i)::uuid, a.org_id, a.org_id, 'h100', 8, 2000 + i % 100, 'EUR', a.id, ` + strconv.FormatInt(t0, 10) + `
			FROM generate_series(1, ` + strconv.Itoa(n) + `) i JOIN ledger_accounts a ON a.org_id = md5('t' || i % 1000)::uuid AND a.name = 'balance'`,
		`CREATE TABLE peer (LIKE ledger_entries INCLUDING ALL) PARTITION BY RANGE (at)`,
		`CREATE TABLE peer_all PARTITION OF peer DEFAULT`,
		`VACUUM ANALYZE usage_records`,
	}
	for _, sql := range prepare {
		_, err := s.db.Exec(ctx, sql)
		must(b, err)
	}
	plain := `INSERT INTO peer (transfer_id, account_id, allocation_id, amount_minor, currency)
		SELECT org_id, account_id, allocation_id, -(` + due("($2::bigint - r.start_s)") + ` - ` + due("($1::bigint - r.start_s)") + `), currency
		FROM usage_records r WHERE end_s IS NULL`
	var ours, peer time.Duration
	at := t0 + 60
	_, err := s.tick(ctx, at) // warm-up
	must(b, err)
	for b.Loop() {
		began := time.Now()
		must(b, pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, plain, at, at+60)
			return err
		}))
		between := time.Now()
		at += 60
		_, err := s.tick(ctx, at)
		must(b, err)
		ours += time.Since(between)
		peer += between.Sub(began)
	}
	b.ReportMetric(float64(ours)/float64(peer), "ours/peer")
	b.ReportMetric(ours.Seconds()/float64(b.N)*1e6/float64(n), "µs/interval")
	b.ReportMetric(0, "ns/op")
}
