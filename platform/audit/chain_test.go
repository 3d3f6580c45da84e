package audit

import (
	"encoding/hex"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

func fixed() row {
	return row{
		xid: 7, id: uuid.MustParse("01990000-0000-7000-8000-000000000001"), at: time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC),
		tenant: ids.From[ids.Tenant](uuid.MustParse("01990000-0000-7000-8000-000000000002")),
		actor:  "user:é", action: "a.b", target: "t", correlation: "c", before: nil, after: []byte(`{"n": 1.50}`),
		client: Client{Address: "203.0.113.7", UserAgent: "gpuaas/1"},
	}
}

// What was sealed years ago must have the same hash today.
func TestHashOfARowIsForEver(t *testing.T) {
	t.Parallel()
	for form, want := range map[int]string{
		withoutClient: "153e7ff8a254bb3a15b48052f985401c06d4c906d5d2857fc448d3cdb7d18a58",
		withClient:    "aebded8859520528d4d01d042bd6678d7b50380af313669d36356821616e6631",
	} {
		r := fixed()
		if d := r.sum(form); hex.EncodeToString(d[:]) != want {
			t.Errorf("form %d: it is %x now", form, d)
		}
		r.at = r.at.In(time.FixedZone("elsewhere", 20_700))
		if d := r.sum(form); hex.EncodeToString(d[:]) != want {
			t.Errorf("form %d: it depends on the zone", form)
		}
	}
}

// The hash that a server makes of a row does not depend on how its session shows
// times and numbers.
func TestHashIsThatOfTheStoredRow(t *testing.T) {
	t.Parallel()
	want := fixed()
	for _, setting := range []string{"timezone = 'Asia/Kathmandu'", "datestyle = 'German'", "extra_float_digits = -15", "bytea_output = 'escape'"} {
		tx := pgtest.Tx(t)
		if _, err := tx.Exec(t.Context(), `SET LOCAL `+setting); err != nil {
			t.Fatal(err)
		}
		var got row
		err := tx.QueryRow(t.Context(), `SELECT '7'::xid8, $1::uuid, $2::timestamptz, $3::uuid, 'user:é', 'a.b', 't', 'c', NULL::jsonb, '{"n":   1.50}'::jsonb, '203.0.113.7', 'gpuaas/1'`,
			want.id, want.at, want.tenant).Scan(got.fields()...)
		if err != nil || got.sum(withClient) != want.sum(withClient) {
			t.Errorf("%s: %+v, %v", setting, got, err)
		}
	}
}

// No two rows have the same bytes, wherever a text ends and the next begins.
func TestDifferentRowsHaveDifferentHashes(t *testing.T) {
	t.Parallel()
	text := rapid.StringMatching(`[ab\x00"]{0,3}`)
	draw := func(r *rapid.T) (x row) {
		x.xid = rapid.Uint64Range(1, 2).Draw(r, "xid")
		x.actor, x.action, x.target, x.correlation = text.Draw(r, "actor"), text.Draw(r, "action"), text.Draw(r, "target"), text.Draw(r, "correlation")
		x.client = Client{Address: text.Draw(r, "address"), UserAgent: text.Draw(r, "user agent")}
		for _, d := range []*[]byte{&x.before, &x.after} {
			if rapid.Bool().Draw(r, "there") {
				*d = []byte(text.Draw(r, "document"))
			}
		}
		return x
	}
	rapid.Check(t, func(r *rapid.T) {
		a, b := draw(r), draw(r)
		alike := a.xid == b.xid && a.actor == b.actor && a.action == b.action && a.target == b.target && a.correlation == b.correlation &&
			(a.before == nil) == (b.before == nil) && string(a.before) == string(b.before) && (a.after == nil) == (b.after == nil) && string(a.after) == string(b.after) && a.client == b.client
		if (a.sum(withClient) == b.sum(withClient)) != alike {
			r.Fatalf("%+v and %+v", a, b)
		}
	})
}
