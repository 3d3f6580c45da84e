package keys_test

import (
	"encoding/json"
	"testing"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/keys"
)

func TestReplayShowsTheSecretThatNoRowHolds(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	a := w.Account(t, "robot")
	var shown keys.Credential
	ch := identity.Change[keys.Credential]{Caller: w.Owner, Key: w.Key("secret", "body"), Answer: func(c keys.Credential) identity.Reply {
		shown = c
		text, _ := json.Marshal(map[string]string{"id": c.ID.String(), "secret": c.Secret})
		return identity.Reply{Status: 201, Body: text, Secret: true}
	}}
	made, err := w.Keys.CreateCredential(identitytest.In(t.Context(), w.Owner), ch, a.ID, keys.NewCredential{})
	if err != nil || made.Secret != shown.Secret || len(made.Secret) != 47 || made.Secret[:4] != "gps_" {
		t.Fatalf("%+v, %v", made, err)
	}
	_, err = w.Keys.CreateCredential(identitytest.In(t.Context(), w.Owner), ch, a.ID, keys.NewCredential{})
	identitytest.WantCode(t, "the same again", err, errs.IdempotencyInFlight) // which the middleware answers with the stored response
	first, found, err := w.Replay(identitytest.In(t.Context(), w.Admin), ch.Key)
	var body struct{ Secret string }
	if err != nil || !found || json.Unmarshal(first.Body, &body) != nil || body.Secret != made.Secret {
		t.Errorf("replayed %q, %v", first.Body, err)
	}
	if n := w.Count(t, `SELECT count(*) FROM service_account_credentials`); n != 1 {
		t.Errorf("%d credentials", n)
	}
	for _, table := range []string{"idempotency_keys", "service_account_credentials", "audit_logs"} {
		// In text, and in what a bytea's hex form would hide.
		n := w.Count(t, `SELECT count(*) FROM `+table+` r
			WHERE to_jsonb(r)::text LIKE '%' || $1 || '%' OR to_jsonb(r)::text LIKE '%' || encode(convert_to($1, 'UTF8'), 'hex') || '%'`, made.Secret[4:])
		if n != 0 {
			t.Errorf("the secret is in %d rows of %s", n, table)
		}
	}
	list, err := w.Keys.Credentials(identitytest.In(t.Context(), w.Owner), w.Owner, a.ID, ids.Credential{}, 5)
	if err != nil || len(list) != 1 || list[0].Secret != "" || list[0].ID != made.ID {
		t.Errorf("listed %+v, %v", list, err)
	}
}

func TestTwoCredentialsOverlapAtMost(t *testing.T) {
	t.Parallel()
	w := identitytest.NewTenancy(t)
	a := w.Account(t, "robot")
	create := func(int) error {
		_, err := w.Keys.CreateCredential(identitytest.In(t.Context(), w.Owner), identitytest.Change[keys.Credential](w.Owner), a.ID, keys.NewCredential{})
		return err
	}
	if codes := identitytest.Together(20, create); codes[""] != 2 || codes[errs.Conflict] != 18 {
		t.Errorf("%v", codes)
	}
	all, err := w.Keys.Credentials(identitytest.In(t.Context(), w.Owner), w.Owner, a.ID, ids.Credential{}, 5)
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	if err := w.Keys.RevokeCredential(identitytest.In(t.Context(), w.Owner), identitytest.Change[struct{}](w.Owner), a.ID, all[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := create(0); err != nil {
		t.Errorf("after one was revoked: %v", err)
	}
	identitytest.WantCode(t, "a third", create(0), errs.Conflict)
	w.Exec(t, `UPDATE service_account_credentials SET expires_at = now() WHERE id = $1`, all[1].ID)
	if err := create(0); err != nil {
		t.Errorf("after one has expired: %v", err)
	}
}
