package reconciler

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/pgtest"
)

// The list is read page by page, the open before the ignored before the healed.
func TestDriftsInPages(t *testing.T) {
	t.Parallel()
	s := newScene(t, pgtest.Tx(t))
	for _, row := range []string{
		"('SKU', $1, 'old', 'open', now() - interval '2 h', NULL, '', NULL)",
		"('SKU', $1, 'young', 'open', now() - interval '1 h', NULL, '', NULL)",
		"('Node', $1, 'past', 'healed', now(), now(), '', NULL)",
		"('Node', $1, 'lived with', 'ignored', now(), NULL, 'ada', now() + interval '1 h')",
	} {
		s.exec(`INSERT INTO drift (kind, object_id, field, status, opened_at, healed_at, ignored_by, ignored_until) VALUES `+row, s.id("x"))
	}
	h := History{DB: s.db}
	var fields []string
	f := DriftFilter{Limit: 1}
	for {
		page, err := h.Drifts(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		fields, f.After = append(fields, page[0].Field), page[0].Place()
	}
	if got := strings.Join(fields, ", "); got != "young, old, lived with, past" {
		t.Errorf("listed %s", got)
	}
	for want, f := range map[string]DriftFilter{
		"lived with, past": {Kind: "Node"}, "young, old": {Status: DriftOpen}, "young, old, lived with, past": {Object: s.id("x")}, "past": {Object: s.id("x"), Status: DriftHealed},
		"": {Object: s.id("y")},
	} {
		f.Limit = 10
		page, err := h.Drifts(t.Context(), f)
		var fields []string
		for _, d := range page {
			fields = append(fields, d.Field)
		}
		if got := strings.Join(fields, ", "); got != want || err != nil {
			t.Errorf("%+v: %s, %v", f, got, err)
		}
	}
}

func TestIgnore(t *testing.T) {
	t.Parallel()
	s := newScene(t, pgtest.Tx(t))
	s.lines("drift x")
	h := History{DB: s.db}
	all, err := h.Drifts(t.Context(), DriftFilter{Limit: 1})
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	ignore := func(id uuid.UUID, ahead time.Duration) (d Drift, err error) {
		err = pgx.BeginFunc(t.Context(), s.db, func(tx pgx.Tx) error {
			d, err = h.Ignore(t.Context(), tx, id, "user:ada", "vendor visit", time.Now().Add(ahead))
			return err
		})
		return d, err
	}
	for what, c := range map[string]struct {
		id    uuid.UUID
		ahead time.Duration
		code  errs.Code
	}{
		"in the past": {all[0].ID, -time.Hour, errs.ValidationError},
		"for ever":    {all[0].ID, 91 * 24 * time.Hour, errs.ValidationError},
		"unknown":     {uuid.New(), time.Hour, errs.NotFound},
	} {
		if _, err := ignore(c.id, c.ahead); errs.CodeOf(err) != c.code {
			t.Errorf("%s: %v", what, err)
		}
	}
	d, err := ignore(all[0].ID, time.Hour)
	if err != nil || d.Status != DriftIgnored || d.IgnoredBy != "user:ada" || d.Version != 2 || d.IgnoredUntil == nil {
		t.Errorf("%+v, %v", d, err)
	}
	if got := s.remains(); got != "Allocation x +0s: drift ignored\n" {
		t.Errorf("due %q", got)
	}
	s.exec(`UPDATE drift SET status = 'healed', healed_at = now()`)
	if _, err := ignore(d.ID, time.Hour); errs.CodeOf(err) != errs.Conflict {
		t.Errorf("healed: %v", err)
	}
}
