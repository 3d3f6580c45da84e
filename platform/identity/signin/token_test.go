package signin_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/devseed"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
)

func TestKeySaysWhoCalls(t *testing.T) {
	t.Parallel()
	b := identitytest.New(t)
	for range 2 { // from the database, then from memory
		c, err := b.SignIn.Authenticate(t.Context(), b.Seed.Dev.Key)
		if err != nil {
			t.Fatal(err)
		}
		if c.User != b.Seed.Dev.ID || c.Role != "user" || c.Tenant != b.Seed.Tenant || c.TenantName != "dev" ||
			c.TenantRole != "owner" || c.Actor() != "user:"+b.Seed.Dev.ID.String() {
			t.Errorf("caller %+v", c)
		}
	}
}

func TestTokensThatAreNotGood(t *testing.T) {
	t.Parallel()
	b := identitytest.New(t)
	session := b.Session(t, b.Seed.Dev.ID)
	expired, err := b.Keys.NewKey(t.Context(), b.Pool, b.Seed.Dev.ID, "old", time.Nanosecond)
	if err != nil {
		t.Fatal(err)
	}
	b.Exec(t, "UPDATE api_keys SET expires_at = now() - interval '1 second' WHERE name = 'old'")
	for name, c := range map[string]struct {
		token string
		code  errs.Code
	}{
		"missing": {"", errs.TokenMissing}, "garbage": {"x", errs.TokenInvalid}, "long": {string(make([]byte, 1<<20)), errs.TokenInvalid},
		"one letter off":      {session[:len(session)-1] + "!", errs.TokenInvalid},
		"session as key":      {"gpk_" + session[4:], errs.TokenInvalid},
		"key as session":      {"gpb_" + b.Seed.Dev.Key[4:], errs.TokenInvalid},
		"no prefix":           {"xxxx" + session[4:], errs.TokenInvalid},
		"expired":             {expired, errs.TokenExpired},
		"its hash, as stored": {"gpk_" + uuid.NewString(), errs.TokenInvalid},
	} {
		_, err := b.SignIn.Authenticate(t.Context(), c.token)
		identitytest.WantCode(t, name, err, c.code)
	}
	var stored int
	if err := b.Pool.QueryRow(t.Context(), "SELECT count(*) FROM api_keys WHERE to_jsonb(api_keys)::text LIKE '%' || $1 || '%'", b.Seed.Dev.Key[4:]).Scan(&stored); err != nil || stored != 0 {
		t.Errorf("the token itself is stored %d times, %v", stored, err)
	}
}

func TestEndedMeansSoon(t *testing.T) {
	t.Parallel()
	b := identitytest.New(t)
	now := time.Unix(1_900_000_000, 0)
	other := b.Fresh()
	other.Clock = clock.At(func() time.Time { return now })
	session := b.Session(t, b.Seed.Dev.ID)
	for _, s := range []*signin.Service{b.SignIn, other} {
		if _, err := s.Authenticate(t.Context(), session); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.SignIn.Logout(t.Context(), identity.Caller{User: b.Seed.Dev.ID}, session, ""); err != nil {
		t.Fatal(err)
	}
	_, err := b.SignIn.Authenticate(t.Context(), session)
	identitytest.WantCode(t, "where it was ended", err, errs.TokenInvalid)
	now = now.Add(time.Second)
	_, err = other.Authenticate(t.Context(), session)
	identitytest.WantCode(t, "elsewhere after a second", err, errs.TokenInvalid)

	if err := b.Keys.RevokeKeys(t.Context(), b.Pool, b.Seed.Dev.ID, devseed.KeyName); err != nil {
		t.Fatal(err)
	}
	_, err = b.SignIn.Authenticate(t.Context(), b.Seed.Dev.Key)
	identitytest.WantCode(t, "revoked key", err, errs.TokenInvalid)
}
