package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gpuaas/gpuaas/cli/money"
	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/ledger"
)

// account is a database in which a tenant was given credit twice.
func account(t *testing.T) (url string, db *pgxpool.Pool, tenant ids.Tenant) {
	t.Helper()
	url, tenant = pgtest.URL(t), ids.New[ids.Tenant]()
	db, err := pg.Open(context.WithoutCancel(t.Context()), url, "test", 2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	if _, err := db.Exec(t.Context(), `INSERT INTO tenants (id, name) VALUES ($1, 'acme')`, tenant); err != nil {
		t.Fatal(err)
	}
	for _, reference := range []string{"one", "two"} {
		err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
			_, err := (&ledger.Service{DB: db}).Transfer(t.Context(), tx, ledger.Transfer{
				ID: uuid.Must(uuid.NewV7()), Kind: ledger.TestCredit, Reference: reference, From: ledger.Promotions, To: ledger.BalanceOf(tenant), Amount: 1234, Currency: "EUR",
			})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return url, db, tenant
}

func TestLedgerVerifyReportsThePosition(t *testing.T) {
	t.Parallel()
	url, db, tenant := account(t)
	if code, _, said := runs(t, url, "ledger", "verify"); code != output.ExitOK || !strings.Contains(said, "Newer than the last seal: 4 of the entries") {
		t.Errorf("before a seal: exit %d, %s", code, said)
	}
	books := &ledger.Service{DB: db}
	if err := books.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	code, table, said := runs(t, url, "ledger", "verify")
	if code != output.ExitOK || said != "" || strings.Count(table, "whole") != 6 || !strings.Contains(table, "EUR 24.68") || !strings.Contains(table, "(platform)   promotions") {
		t.Errorf("exit %d\n%s%s", code, table, said)
	}
	_, document, _ := runs(t, url, "ledger", "verify", "-o", "json")
	heads := filepath.Join(t.TempDir(), "heads.json")
	if err := os.WriteFile(heads, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, asked := range []string{"acme", tenant.String()} {
		if code, table, _ := runs(t, url, "ledger", "verify", "--tenant", asked, "--heads", heads); code != output.ExitOK || strings.Count(table, "whole") != 1 {
			t.Errorf("%s: exit %d\n%s", asked, code, table)
		}
	}

	forge := func(sql string) {
		b := &pgx.Batch{}
		b.Queue(`SET LOCAL session_replication_role = replica`)
		b.Queue(sql)
		if err := pg.Commit(t.Context(), db, b, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	forge(`WITH t AS (UPDATE ledger_transfers SET amount_minor = amount_minor * 2 WHERE reference = 'one' RETURNING id)
		UPDATE ledger_entries SET amount_minor = amount_minor * 2 WHERE transfer_id = (SELECT id FROM t)`)
	code, table, said = runs(t, url, "ledger", "verify", "--tenant", "acme")
	if code != output.ExitFailure || !strings.Contains(table, "balance_differs") || !strings.Contains(said, "2 faults") ||
		!strings.Contains(said, "Error: tenant acme, account balance: the stored balance differs by -1234 minor units from") || !strings.Contains(said, "Code: findings") {
		t.Errorf("exit %d\n%s%s", code, table, said)
	}
	var found struct {
		Difference int64          `json:"difference_minor"`
		Faults     []money.Misfit `json:"faults"`
	}
	code, document, _ = runs(t, url, "ledger", "verify", "-o", "json")
	if err := json.Unmarshal([]byte(document), &found); err != nil || code != output.ExitFailure || found.Difference != 2468 || len(found.Faults) != 4 ||
		!strings.Contains(document, `entries 1 to 6, or their seal, were changed after`) || !strings.Contains(document, `"tenant_name": "acme"`) {
		t.Errorf("exit %d, %v\n%s", code, err, document)
	}

	forge(`DELETE FROM ledger_checkpoints`)
	if err := books.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if code, _, said := runs(t, url, "ledger", "verify"); code != output.ExitOK {
		t.Errorf("the forgery does not fit: %s", said)
	}
	if code, _, said := runs(t, url, "ledger", "verify", "--heads", heads); code != output.ExitFailure || !strings.Contains(said, "the seal up to entry 6 is not the stored one") {
		t.Errorf("exit %d, %s", code, said)
	}
}

func TestLedgerVerifyRejects(t *testing.T) {
	t.Parallel()
	url, _, _ := account(t)
	empty := filepath.Join(t.TempDir(), "empty.json")
	if err := os.WriteFile(empty, []byte(`{"accounts":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url  string
		args []string
		exit int
	}{
		"no database":              {"", nil, output.ExitNotFound},
		"an unknown tenant":        {url, []string{"--tenant", "nobody"}, output.ExitNotFound},
		"a tenant without balance": {url, []string{"--tenant", uuid.NewString()}, output.ExitNotFound},
		"no such file":             {url, []string{"--heads", empty + "x"}, output.ExitUsage},
		"a file without heads":     {url, []string{"--heads", empty}, output.ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if code, _, said := runs(t, c.url, append([]string{"ledger", "verify"}, c.args...)...); code != c.exit {
				t.Errorf("exit %d, want %d: %s", code, c.exit, said)
			}
		})
	}
}

// Each fault has its own message.
func TestEveryMisfitHasWords(t *testing.T) {
	t.Parallel()
	said := map[string]bool{}
	for _, w := range []ledger.Wrong{
		ledger.BalanceDiffers, ledger.SealedChanged, ledger.HeadLost, ledger.TransferUnbalanced,
		ledger.TransferMissing, ledger.CurrencyDiffers, ledger.AccountMissing,
	} {
		words := money.MisfitWords(ledger.Fault{Wrong: w, After: 3, UpTo: 7})
		if said[words] || words == string(w) {
			t.Errorf("%s: %q", w, words)
		}
		said[words] = true
	}
}

// The hourly checks compare more than the ledger: a payment without a credit is found only with --all.
func TestLedgerVerifyAllComparesPayments(t *testing.T) {
	t.Parallel()
	url, db, tenant := account(t)
	if code, _, said := runs(t, url, "ledger", "verify", "--all"); code != output.ExitOK {
		t.Fatalf("exit %d, %s", code, said)
	}
	b := &pgx.Batch{}
	b.Queue(`SET LOCAL session_replication_role = replica`)
	b.Queue(`INSERT INTO stripe_payments (payment, session_id, org_id, amount_minor, currency, transfer_id) VALUES ('pi_1', gen_random_uuid(), $1, 500, 'EUR', gen_random_uuid())`, tenant)
	if err := pg.Commit(t.Context(), db, b, func() {}); err != nil {
		t.Fatal(err)
	}
	if code, _, said := runs(t, url, "ledger", "verify"); code != output.ExitOK {
		t.Errorf("without --all: exit %d, %s", code, said)
	}
	code, _, said := runs(t, url, "ledger", "verify", "--all")
	if code != output.ExitFailure || !strings.Contains(said, "paid 500 and was credited 0 EUR") {
		t.Errorf("exit %d, %s", code, said)
	}
	if code, _, _ := runs(t, url, "ledger", "verify", "--all", "--tenant", "acme"); code != output.ExitUsage {
		t.Errorf("with a tenant: exit %d", code)
	}
}
