package audit_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/internal/redact"
	"github.com/gpuaas/gpuaas/platform/audit"
)

func TestEntryIsWrittenWithTheChange(t *testing.T) {
	t.Parallel()
	tx := pgtest.Tx(t)
	diff := pgtest.Diff(t, tx, pgtest.MaskIDs(), pgtest.MaskTimes(), pgtest.Mask("xid"))
	b := &pgx.Batch{}
	audit.Queue(b, audit.Entry{
		Tenant: ids.New[ids.Tenant](), By: audit.By{Actor: "user:u", CorrelationID: "c", Client: audit.Client{Address: "203.0.113.7", UserAgent: "gpuaas/1"}}, Action: "allocation.create", Target: "core42:aicloud:-:t:p:allocation:a",
		After: map[string]any{"gpus": 2},
	})
	audit.Queue(b, audit.Entry{By: audit.By{Actor: "system:reconcile"}, Action: "node.cordon", Target: "n", Before: "a text", After: struct{ N int }{1}})
	if err := tx.SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
	want := `+ audit_logs action="allocation.create" actor="user:u" after={"gpus": 2} at=<time> client_address="203.0.113.7" correlation_id="c" id="<id 1>" org_id="<id 2>" target_urn="core42:aicloud:-:t:p:allocation:a" user_agent="gpuaas/1" xid=…
+ audit_logs action="node.cordon" actor="system:reconcile" after={"N": 1} at=<time> before="a text" client_address="" correlation_id="" id="<id 3>" target_urn="n" user_agent="" xid=…
`
	if got := diff(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestEntryThatCannotBeWrittenFailsTheChange(t *testing.T) {
	t.Parallel()
	b := &pgx.Batch{}
	audit.Queue(b, audit.Entry{By: audit.By{Actor: "user:u"}, Action: "a", Target: "t", After: func() {}})
	if err := pgtest.Tx(t).SendBatch(t.Context(), b).Close(); err == nil {
		t.Error("a change without its audit row went through")
	}
}

// AUD-01: a value under the name of a secret is not written, at any depth.
func TestSecretsAreNotWritten(t *testing.T) {
	t.Parallel()
	tx := pgtest.Tx(t)
	type key struct {
		Name       string `json:"name"`
		PrivateKey string `json:"ssh_private_key_pem"`
	}
	b := &pgx.Batch{}
	audit.Queue(b, audit.Entry{
		By: audit.By{Actor: "user:u"}, Action: "a.b", Target: "t", Before: map[string]any{"password": "canary", "deep": []any{map[string]any{"refresh_token": "canary"}}},
		After: []key{{Name: "shown", PrivateKey: "canary"}},
	})
	if err := tx.SendBatch(t.Context(), b).Close(); err != nil {
		t.Fatal(err)
	}
	var text string
	if err := tx.QueryRow(t.Context(), `SELECT before::text || after::text FROM audit_logs WHERE xid = pg_current_xact_id()`).Scan(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "canary") || strings.Count(text, redact.Mask) != 3 || !strings.Contains(text, "shown") {
		t.Error(text)
	}
}
