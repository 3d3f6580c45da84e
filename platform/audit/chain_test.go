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
	}
}

// What was sealed years ago must have the same hash today.
func TestHashOfARowIsForEver(t *testing.T) {
	t.Parallel()
	const want = "153e7ff8a254bb3a15b48052f985401c06d4c906d5d2857fc448d3cdb7d18a58"
	r := fixed()
	if d := r.sum(); hex.EncodeToString(d[:]) != want {
		t.Errorf("it is %x now", d)
	}
	r.at = r.at.In(time.FixedZone("elsewhere", 20_700))
	if d := r.sum(); hex.EncodeToString(d[:]) != want {
		t.Error("it depends on the zone")
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
		err := tx.QueryRow(t.Context(), `SELECT '7'::xid8, $1::uuid, $2::timestamptz, $3::uuid, 'user:é', 'a.b', 't', 'c', NULL::jsonb, '{"n":   1.50}'::jsonb`,
			want.id, want.at, want.tenant).Scan(got.fields()...)
		if err != nil || got.sum() != want.sum() {
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
			(a.before == nil) == (b.before == nil) && string(a.before) == string(b.before) && (a.after == nil) == (b.after == nil) && string(a.after) == string(b.after)
		if (a.sum() == b.sum()) != alike {
			r.Fatalf("%+v and %+v", a, b)
		}
	})
}
