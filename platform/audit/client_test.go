package audit

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

// A client chooses its user agent. It cannot control a terminal, forge a second line or fill the table.
func TestAHostileUserAgentIsHarmless(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]Client{
		"gpuaas/1.4 (linux; amd64)":     {"203.0.113.7", "gpuaas/1.4 (linux; amd64)"},
		"\x1b]0;owned\a\x1b[2J":         {"203.0.113.7", "?]0;owned??[2J"},
		"a\r\nuser:1 tenant.delete\x00": {"203.0.113.7", "a??user:1 tenant.delete?"},
		"\u202etxt.exe\u2028\u200b":     {"203.0.113.7", "?txt.exe??"},
		"\xff\xfe":                      {"203.0.113.7", "??"},
		strings.Repeat("é", 5000):       {"203.0.113.7", strings.Repeat("é", maxUserAgent/2)},
		"x" + strings.Repeat("é", 5000): {"203.0.113.7", "x" + strings.Repeat("é", maxUserAgent/2-1)},
	} {
		got := Client{"::ffff:203.0.113.7", sent}.Clean()
		if got != want || !utf8.ValidString(got.UserAgent) || len(got.UserAgent) > maxUserAgent {
			t.Errorf("%.40q: got %q", sent, got)
		}
	}
	for sent, want := range map[string]string{"fe80::1%eth0\x1b": "fe80::1", "not an address": "", "": "", "2001:DB8::1": "2001:db8::1"} {
		if got := (Client{Address: sent}).Clean(); got.Address != want {
			t.Errorf("%q: got %q", sent, got.Address)
		}
	}
}

// A server of the previous release seals without the client. Its seals stay valid, and later ones continue
// their chain.
func TestSealsOfTheFirstFormStayValid(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	s, tenant := &Service{DB: db}, ids.New[ids.Tenant]()
	add := func(of Client) {
		b := &pgx.Batch{}
		Queue(b, Entry{Tenant: tenant, By: By{Actor: "user:u", Client: of}, Action: "a.b", Target: "t"})
		if err := pg.Commit(t.Context(), db, b, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	add(Client{})
	err := pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		old := &seal{tenant: tenant, form: withoutClient}
		var r row
		if err := tx.QueryRow(t.Context(), selectRows, uint64(0), uint64(1)<<40, tenant).Scan(r.fields()...); err != nil {
			return err
		}
		old.upTo = r.xid
		old.add(&r)
		return insert(t.Context(), tx, r.xid, map[ids.Tenant]*seal{tenant: old})
	})
	if err != nil {
		t.Fatal(err)
	}
	add(Client{"203.0.113.7", "gpuaas/1"})
	var r Report
	// An open transaction of another test delays the seal.
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until) && (len(r.Chains) != 1 || r.Chains[0].Rows != 2); {
		if err = s.Seal(t.Context()); err == nil {
			r, err = s.Verify(t.Context(), tenant, nil)
		}
		if errors.Is(err, errRestored) { // the seal above did not wait for it
			err = nil
			time.Sleep(20 * time.Millisecond)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !r.OK() || len(r.Chains) != 1 || r.Chains[0].Rows != 2 || r.Chains[0].Seals != 2 {
		t.Errorf("got %+v", r)
	}
	// The owner of the schema writes a client into a row whose seal does not cover it.
	for _, sql := range []string{
		`ALTER TABLE audit_logs DISABLE TRIGGER USER`,
		`UPDATE audit_logs SET client_address = '198.51.100.9' WHERE client_address = ''`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if r, err = s.Verify(t.Context(), tenant, nil); err != nil || r.OK() {
		t.Errorf("an invented client is not noticed: %+v, %v", r, err)
	}
}
