package matrix_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"testing"
	"time"
)

// What is left out of a spec has its default, whichever way it is declared.
func TestTheAPIFillsInDefaults(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for path, spec := range map[string]string{
		"Node/filled": `{"sku":"` + sku + `","region":"` + region + `","gpus":1}`,
		"SKU/filled":  `{"gpuModel":"Tesla T4","memoryGiB":16,"price":{"currency":"EUR","amountMinor":35}}`,
	} {
		got := w.send(request{http.MethodPut, "/api/v1/admin/desired/" + path, w.admin.header(), []byte(`{"spec":` + spec + `}`)})
		if got.status != http.StatusCreated {
			t.Fatalf("%s: %d %s", path, got.status, got.body)
		}
	}
	for _, defaulted := range []string{`kind = 'Node' AND spec->>'onboarding' = 'manual'`, `kind = 'SKU' AND spec->>'isolation' = 'host_user'`} {
		if n := queryOne[int](w.installation, `SELECT count(*) FROM desired_objects WHERE name = 'filled' AND `+defaulted); n != 1 {
			t.Errorf("%d objects with %s", n, defaulted)
		}
	}
	got := w.send(request{http.MethodPut, "/api/v1/admin/desired/SKU/filled", w.admin.header(), []byte(`{"spec":{"gpuModel":"Tesla T4","memoryGiB":16,"price":{"currency":"EUR","amountMinor":36}}}`)})
	if got.code() != "version_required" {
		t.Errorf("a name that exists: %d %s", got.status, got.body)
	}
	got = w.send(request{http.MethodPut, "/api/v1/admin/desired/SKU/unreal", w.admin.header(), []byte(`{"spec":{"gpuModel":"Tesla T4","memoryGiB":"16"}}`)})
	if got.code() != "spec_invalid" || queryOne[int](w.installation, `SELECT count(*) FROM desired_objects WHERE name = 'unreal'`) != 0 {
		t.Errorf("what is no SKU: %d %s", got.status, got.body)
	}
	h := w.admin.header()
	got = w.send(request{http.MethodPut, "/api/v1/admin/desired/OSImage/tried?dry_run=true", h, []byte(`{"spec":{"digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}}`)})
	if got.status != http.StatusCreated || queryOne[int](w.installation, `SELECT count(*) FROM desired_objects WHERE name = 'tried'`) != 0 {
		t.Errorf("only tried: %d %s", got.status, got.body)
	}
}

// A hook that its forge has signed has the source synced, and no other hook does;
// a wrong signature does not show which names are sources.
func TestHooksWakeTheirSource(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	asked := func() time.Time {
		return queryOne[time.Time](w.installation, `SELECT greatest(sync_requested_at, '2000-01-01') FROM git_sources WHERE name = $1`, source)
	}
	hook := func(to, secret, body string) answer {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(body))
		h := http.Header{}
		h.Set("X-Gitea-Signature", hex.EncodeToString(mac.Sum(nil)))
		h.Set("X-Gitea-Event", "push")
		return w.send(request{http.MethodPost, "/api/v1/git/webhook/" + to, h, []byte(body)})
	}
	before := asked()
	for body, wakes := range map[string]bool{
		`{"ref":"refs/heads/elsewhere","after":"9f3c2d1e"}`: false,
		`{"ref":"refs/heads/main","after":"9f3c2d1e"}`:      true,
	} {
		got := hook(source, hookSecret, body)
		now := asked()
		if got.status != http.StatusAccepted || now.After(before) != wakes {
			t.Errorf("%s: %d %s, processed at %s after %s", body, got.status, got.body, now, before)
		}
		before = now
	}
	wrong, unknown := hook(source, "a guess", `{"ref":"refs/heads/main"}`), hook("guess", "guess", `{"ref":"refs/heads/main"}`)
	if why := differ(wrong, unknown); why != "" || wrong.code() != "signature_invalid" {
		t.Errorf("a wrong signature and no source can be distinguished: %s", why)
	}
	if unread := hook("guess", "guess", `{`); differ(wrong, unread) != "" {
		t.Errorf("a body that is no hook shows that there is no source: %s", unread.body)
	}
	if none := hook("other", hookSecret, `{}`); differ(wrong, none) != "" {
		t.Errorf("a wrong signature and a source without a forge can be distinguished: %s", none.body)
	}
	if now := asked(); !now.Equal(before) {
		t.Errorf("processed again at %s", now)
	}
}

// A proposed change is read, approved by another user and applied;
// a second decision, or one on another version, is rejected.
func TestAProposalIsCarriedOutAsItWasShown(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	id := w.plan(w.operator) // proposed by the administrator
	decide := func(by *actor, verb, body string) answer {
		return w.send(request{http.MethodPost, "/api/v1/admin/plans/" + id + "/" + verb, by.header(), []byte(body)})
	}
	if got := decide(w.admin, "approve", `{}`); got.code() != "policy_denied" {
		t.Errorf("approved by its author: %d %s", got.status, got.body)
	}
	if got := decide(w.operator, "approve", `{"hash":"another"}`); got.code() != "plan_stale" {
		t.Errorf("another plan than was read: %d %s", got.status, got.body)
	}
	h := w.operator.header()
	h.Set("X-Idempotency-Key", "approve-once")
	approve := request{http.MethodPost, "/api/v1/admin/plans/" + id + "/approve", h, []byte(`{"reason":"agreed"}`)}
	first := w.send(approve)
	again := w.send(approve)
	if first.status != http.StatusOK || field(first.body, "status") != "approved" || string(first.body) != string(again.body) || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%d %s\nagain %d %s", first.status, first.body, again.status, again.body)
	}
	if got := decide(w.admin, "apply", `{}`); got.status != http.StatusOK || field(got.body, "status") != "applied" {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := decide(w.operator, "reject", `{}`); got.code() != "conflict" {
		t.Errorf("rejected when it was applied: %d %s", got.status, got.body)
	}
	if n := queryOne[int](w.installation, `SELECT count(*) FROM desired_objects WHERE kind = 'SKU' AND name LIKE 'sku-%'`); n != 1 {
		t.Errorf("%d SKUs were declared", n)
	}
}

// Hostile files are findings for their sender only.
func TestHostileFilesAreRejected(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for what, body := range map[string]string{
		"a bomb":       `{"files":{"a.cue":"x: [for i in [1,2,3,4,5,6,7,8,9,10] for j in [1,2,3,4,5,6,7,8,9,10] for k in [1,2,3,4,5,6,7,8,9,10] for l in [1,2,3,4,5,6,7,8,9,10] for m in [1,2,3,4,5,6,7,8,9,10] for n in [1,2,3,4,5,6,7,8,9,10] for o in [1,2,3,4,5,6,7,8,9,10] {i+j+k+l+m+n+o}]"}}`,
		"an import":    `{"files":{"a.cue":"import \"tool/exec\"\nx: exec.Run & {cmd: \"id\"}"}}`,
		"an alias":     `{"files":{"a.yaml":"a: &a [x]\nb: *a\n"}}`,
		"nothing":      `{"files":{"README.md":"hello"}}`,
		"no source":    `{"source":"guess","files":{"a.yaml":"a: 1"}}`,
		"a path above": `{"files":{"../../etc/a.yaml":"a: 1"}}`,
	} {
		got := w.send(request{http.MethodPost, "/api/v1/admin/plans", w.operator.header(), []byte(body)})
		if got.status != http.StatusUnprocessableEntity && (what != "no source" || got.status != http.StatusNotFound) {
			t.Errorf("%s: %d %.300s", what, got.status, got.body)
		}
		if n := queryOne[int](w.installation, `SELECT count(*) FROM plans WHERE origin = 'change'`); n != 0 {
			t.Errorf("%s: %d plans were stored", what, n)
		}
	}
}
