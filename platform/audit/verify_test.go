package audit_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pg"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/platform/audit"
)

// tamper does what only a superuser can: it writes past every trigger.
func tamper(t testing.TB, db pg.DB, sql string, args ...any) {
	t.Helper()
	b := &pgx.Batch{}
	b.Queue(`SET LOCAL session_replication_role = replica`)
	b.Queue(sql, args...)
	if err := pg.Commit(t.Context(), db, b, func() {}); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// sealed is a history of two tenants and the platform, in three seals each, and
// the fourth of nine rows of the first tenant.
func sealed(t *testing.T) (s *audit.Service, tenant ids.Tenant, row uuid.UUID) {
	t.Helper()
	s = &audit.Service{DB: pgtest.Clone(t)}
	tenant = ids.New[ids.Tenant]()
	for range 3 {
		for range 3 {
			write(t, s.DB, entryOf(tenant), entryOf(ids.New[ids.Tenant]()), entryOf(ids.Tenant{}))
		}
		if r := sealAll(t, s); !r.OK() {
			t.Fatalf("it is broken before anybody has touched it: %+v", r)
		}
	}
	if err := s.DB.QueryRow(t.Context(), `SELECT id FROM audit_logs WHERE org_id = $1 ORDER BY xid, id OFFSET 3 LIMIT 1`, tenant).Scan(&row); err != nil {
		t.Fatal(err)
	}
	return s, tenant, row
}

// INV-29: whatever a superuser does behind a seal is found, and at its place.
func TestINV29EditBehindASealIsFound(t *testing.T) {
	t.Parallel()
	const here = ` WHERE id = $1`
	const seal = ` WHERE org_id = $1 AND up_to = (SELECT up_to FROM audit_seals WHERE org_id = $1 ORDER BY up_to OFFSET 1 LIMIT 1)`
	// A seal has fewer rows if a transaction of another test was open when it was made.
	const several = ` WHERE org_id = $1 AND up_to = (SELECT max(up_to) FROM audit_seals WHERE org_id = $1 AND length(rows) > 48)`
	for sql, wrong := range map[string]audit.Wrong{
		`UPDATE audit_logs SET actor = 'user:v'` + here:                          audit.RowChanged,
		`UPDATE audit_logs SET action = 'a.c'` + here:                            audit.RowChanged,
		`UPDATE audit_logs SET target_urn = 'u'` + here:                          audit.RowChanged,
		`UPDATE audit_logs SET correlation_id = 'c'` + here:                      audit.RowChanged,
		`UPDATE audit_logs SET client_address = ''` + here:                       audit.RowChanged,
		`UPDATE audit_logs SET user_agent = 'curl'` + here:                       audit.RowChanged,
		`UPDATE audit_logs SET before = NULL` + here:                             audit.RowChanged,
		`UPDATE audit_logs SET before = 'null'` + here:                           audit.RowChanged,
		`UPDATE audit_logs SET after = '"texu"'` + here:                          audit.RowChanged,
		`UPDATE audit_logs SET before = after, after = before` + here:            audit.RowChanged,
		`UPDATE audit_logs SET actor = 'user:ua', action = '.b'` + here:          audit.RowChanged,
		`UPDATE audit_logs SET at = at + interval '1 microsecond'` + here:        audit.RowChanged,
		`UPDATE audit_logs SET xid = (xid::text::bigint - 1)::text::xid8` + here: audit.RowChanged,
		`UPDATE audit_logs SET org_id = NULL` + here:                             audit.RowMissing,
		`UPDATE audit_logs SET id = gen_random_uuid()` + here:                    audit.RowInserted,
		`DELETE FROM audit_logs` + here:                                          audit.RowMissing,
		`UPDATE audit_logs SET xid = (SELECT max(xid) FROM audit_logs)` + here:   audit.RowMissing,
		`UPDATE audit_logs SET xid = '1'` + here:                                 audit.RowInserted,
		`INSERT INTO audit_logs (id, at, org_id, xid, actor, action, target_urn)
			SELECT gen_random_uuid(), at, org_id, xid, actor, action, target_urn FROM audit_logs` + here: audit.RowInserted,
		`UPDATE audit_seals SET chain = sha256(chain)` + seal:                               audit.SealBroken,
		`UPDATE audit_seals SET form = 1` + seal:                                            audit.SealBroken,
		`UPDATE audit_seals SET total = total + 1` + seal:                                   audit.SealBroken,
		`UPDATE audit_seals SET rows = set_byte(rows, 39, 255 - get_byte(rows, 39))` + seal: audit.SealBroken,
		`UPDATE audit_seals SET rows = substr(rows, 49), total = total - 1` + several:       audit.SealBroken,
		`DELETE FROM audit_seals` + seal:                                                    audit.RowInserted,
		`WITH s AS (DELETE FROM audit_seals` + seal + ` RETURNING up_to)
			DELETE FROM audit_logs WHERE org_id = $1 AND xid <= (SELECT up_to FROM s)`: audit.RowMissing,
	} {
		t.Run(sql, func(t *testing.T) {
			t.Parallel()
			s, tenant, row := sealed(t)
			ofSeal := strings.Contains(sql, "audit_seals")
			arg := any(row)
			if ofSeal {
				arg = tenant
			}
			tamper(t, s.DB, sql, arg)
			r := verify(t, s)
			found := false
			for _, c := range r.Chains {
				if c.Tenant != tenant {
					continue
				}
				found = c.Fault != nil && c.Fault.Wrong == wrong
				if known := wrong == audit.RowChanged || wrong == audit.RowMissing; found && known && !ofSeal {
					found = c.Fault.Row == row && !c.Fault.SealedAt.IsZero()
				}
			}
			alone := wrong
			if strings.HasPrefix(sql, `DELETE FROM audit_seals`) {
				// The end of the removed seal is not stored elsewhere: its rows fall into the next seal,
				// which then does not follow.
				alone = audit.SealBroken
			}
			one, err := s.Verify(t.Context(), tenant, nil)
			if !found || err != nil || len(one.Chains) != 1 || one.Chains[0].Fault == nil || one.Chains[0].Fault.Wrong != alone {
				t.Errorf("want %s\nall: %+v\none: %+v %v", wrong, r, one, err)
			}
		})
	}
}

// What is before the fault and other tenants' chains are not blamed.
func TestFaultIsBlamedOnItsTenant(t *testing.T) {
	t.Parallel()
	s, tenant, row := sealed(t)
	tamper(t, s.DB, `UPDATE audit_logs SET actor = 'user:v' WHERE id = $1`, row)
	for _, c := range verify(t, s).Chains {
		if (c.Fault != nil) != (c.Tenant == tenant) {
			t.Errorf("%+v", c)
		}
	}
}

// Rows and seals that were all rewritten fit each other. Only heads that were stored elsewhere reveal
// the change.
func TestRewrittenSealsAreFoundByStoredHeads(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"an edited row":           `UPDATE audit_logs SET actor = 'user:v' WHERE id = $1`,
		"a row that is gone":      `DELETE FROM audit_logs WHERE id = $1`,
		"a tenant's whole record": `DELETE FROM audit_logs WHERE org_id = (SELECT org_id FROM audit_logs WHERE id = $1)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, tenant, row := sealed(t)
			heads := verify(t, s).Chains
			tamper(t, s.DB, sql, row)
			tamper(t, s.DB, `DELETE FROM audit_seals`)
			if r := sealAll(t, s); !r.OK() {
				t.Fatalf("the forgery does not fit: %+v", r)
			}
			r := verify(t, s, heads...)
			for _, c := range r.Chains {
				if c.Tenant == tenant && (c.Fault == nil || c.Fault.Wrong != audit.HeadLost) {
					t.Errorf("not found: %+v", c)
				}
			}
		})
	}
}

// Any sequence of writes, late commits, rollbacks and seals leaves complete chains, and any one later
// edit is detected.
func TestINV29AnyHistoryIsSealedWhole(t *testing.T) {
	t.Parallel()
	db := pgtest.Clone(t)
	s := &audit.Service{DB: db}
	tenants := []ids.Tenant{{}, ids.New[ids.Tenant](), ids.New[ids.Tenant]()}
	rapid.Check(t, func(r *rapid.T) {
		var open []pgx.Tx
		entries := func() (b *pgx.Batch) {
			b = &pgx.Batch{}
			for range rapid.IntRange(1, 3).Draw(r, "entries") {
				e := entryOf(rapid.SampledFrom(tenants).Draw(r, "tenant"))
				e.Target = rapid.StringMatching(`[a-z:"\\é]{0,8}`).Draw(r, "target")
				audit.Queue(b, e)
			}
			return b
		}
		end := func(commit bool) {
			i := rapid.IntRange(0, len(open)-1).Draw(r, "which")
			tx := open[i]
			open = append(open[:i], open[i+1:]...)
			how := tx.Rollback
			if commit {
				how = tx.Commit
			}
			if err := how(t.Context()); err != nil {
				r.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			var err error
			switch step := rapid.SampledFrom([]string{"write", "begin", "commit", "roll back", "seal"}).Draw(r, "step"); {
			case step == "write":
				err = db.SendBatch(t.Context(), entries()).Close()
			case step == "begin" && len(open) < 4:
				var tx pgx.Tx
				if tx, err = db.Begin(t.Context()); err == nil {
					open = append(open, tx)
					err = tx.SendBatch(t.Context(), entries()).Close()
				}
			case step == "seal":
				err = s.Seal(t.Context())
			case len(open) > 0:
				end(step == "commit")
			}
			if err != nil {
				r.Fatal(err)
			}
			if report := verify(t, s); !report.OK() {
				r.Fatalf("broken: %+v", report)
			}
		}
		for len(open) > 0 {
			end(true)
		}
		whole(t, r, s)
	})
}

func whole(t *testing.T, r *rapid.T, s *audit.Service) {
	t.Helper()
	report := sealAll(t, s)
	var sum, rows int64
	for _, c := range report.Chains {
		sum += c.Rows
	}
	if err := s.DB.QueryRow(t.Context(), `SELECT count(*) FROM audit_logs`).Scan(&rows); err != nil {
		r.Fatal(err)
	}
	if !report.OK() || sum != rows || report.Unsealed != 0 {
		r.Fatalf("of %d rows: %+v", rows, report)
	}
	if rows == 0 {
		return
	}
	var id uuid.UUID
	n := rapid.Int64Range(0, rows-1).Draw(r, "row")
	if err := s.DB.QueryRow(t.Context(), `SELECT id FROM audit_logs ORDER BY xid, id OFFSET $1 LIMIT 1`, n).Scan(&id); err != nil {
		r.Fatal(err)
	}
	tamper(t, s.DB, `UPDATE audit_logs SET actor = actor || 'x' WHERE id = $1`, id)
	found := ""
	for _, c := range verify(t, s).Chains {
		if c.Fault != nil {
			found += fmt.Sprint(c.Fault.Wrong, c.Fault.Row)
		}
	}
	tamper(t, s.DB, `UPDATE audit_logs SET actor = left(actor, -1) WHERE id = $1`, id)
	if found != fmt.Sprint(audit.RowChanged, id) {
		r.Fatalf("the edit of row %d of %d was found as %q", n, rows, found)
	}
}
