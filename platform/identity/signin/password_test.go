package signin_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/hint"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/identitytest"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
)

const good, better = "correct horse battery", "staple correct horse"

func TestPasswordSignsIn(t *testing.T) {
	t.Parallel()
	e := enter(t)
	dev := identity.Caller{User: e.Seed.Dev.ID, Tenant: e.Seed.Tenant, CorrelationID: "c", SignIn: identity.SignIn{At: time.Now()}}
	for name, c := range map[string]struct {
		password string
		code     errs.Code
	}{
		"short": {"short", errs.ValidationError}, "short in letters, long in bytes": {"üüüüüüüüüüü", errs.ValidationError},
		"the address": {"DEV@dev.localhost", errs.ValidationError}, "too long": {strings.Repeat("x", 1025), errs.ValidationError},
		"no text": {"correct horse \xff\xff", errs.ValidationError},
	} {
		identitytest.WantCode(t, name, e.api.SetPassword(t.Context(), dev, "", c.password, true), c.code)
	}
	if err := e.api.SetPassword(t.Context(), dev, "", good, true); err != nil {
		t.Fatal(err)
	}
	in := func(email, password string) (signin.Started, error) {
		return e.api.PersonalLogin(t.Context(), email, password, "program", from)
	}
	first, err := in(" Dev@dev.localhost ", good)
	if err != nil || first.User.ID != e.Seed.Dev.ID {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := in("dev@dev.localhost", good)
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
	for name, try := range map[string][2]string{
		"another password": {"dev@dev.localhost", better}, "an empty one": {"dev@dev.localhost", ""}, "nobody": {"nobody@dev.localhost", good},
		"a user without a password": {"operator@dev.localhost", good}, "a very long one": {"dev@dev.localhost", good + strings.Repeat("x", 5000)},
	} {
		_, err := in(try[0], try[1])
		identitytest.WantCode(t, name, err, errs.LoginFailed)
		words[err.Error()] = true
	}
	if len(words) != 1 {
		t.Errorf("the response reveals which users exist: %v", words)
	}

	c, err := e.api.Authenticate(t.Context(), second.Token)
	if err != nil {
		t.Fatal(err)
	}
	identitytest.WantCode(t, "without the present one", e.api.SetPassword(t.Context(), c, "", better, true), errs.LoginFailed)
	if err := e.api.SetPassword(t.Context(), c, good, better, true); err != nil {
		t.Fatal(err)
	}
	if _, err := e.api.Authenticate(t.Context(), second.Token); err != nil {
		t.Errorf("the session that changed it: %v", err)
	}
	_, err = e.api.Authenticate(t.Context(), first.Token)
	identitytest.WantCode(t, "the other session", err, errs.TokenInvalid)
	_, err = e.api.Authenticate(t.Context(), e.Seed.Dev.Key)
	identitytest.WantCode(t, "an API key from before", err, errs.TokenInvalid)
	_, err = in("dev@dev.localhost", good)
	identitytest.WantCode(t, "the old password", err, errs.LoginFailed)

	e.Exec(t, "UPDATE users SET disabled_at = now() WHERE id = $1", e.Seed.Dev.ID)
	_, err = in("dev@dev.localhost", better)
	identitytest.WantCode(t, "a disabled person", err, errs.LoginFailed)
	e.Exec(t, "UPDATE policy_values SET value = 'false'")
	_, err = e.process(t, &hint.Bus{}).PersonalLogin(t.Context(), "dev@dev.localhost", better, "program", from)
	identitytest.WantCode(t, "where there are no passwords", err, errs.NotFound)
}

// The sign-in of a user replaces a hash with a lower cost.
func TestWeakHashIsReplaced(t *testing.T) {
	t.Parallel()
	e := enter(t)
	// argon2id of the password with m=64, t=1, made with the reference's form.
	e.Exec(t, "INSERT INTO user_passwords (user_id, hash) VALUES ($1, $2)", e.Seed.Dev.ID, signin.HashForTest(good, 64, 1))
	if _, err := e.api.PersonalLogin(t.Context(), "dev@dev.localhost", better, "program", from); errs.CodeOf(err) != errs.LoginFailed {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := e.api.PersonalLogin(t.Context(), "dev@dev.localhost", good, "program", from); err != nil {
			t.Fatal(err)
		}
	}
	var hash string
	if err := e.Pool.QueryRow(t.Context(), "SELECT hash FROM user_passwords").Scan(&hash); err != nil || !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("%s, %v", hash, err)
	}
}

func TestCodeOfTheFirstAdministratorWorksOnce(t *testing.T) {
	t.Parallel()
	e := enter(t)
	link, err := e.api.FirstAdminLink(t.Context(), "root@example.org")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var won atomic.Int64
	for range 100 {
		wg.Go(func() {
			started, err := e.api.UseLink(t.Context(), link.Code, from)
			switch {
			case err == nil && started.User.Role == "admin" && started.User.Email == "root@example.org":
				won.Add(1)
			case errs.CodeOf(err) != errs.LoginFailed:
				t.Errorf("%+v, %v", started, err)
			}
		})
	}
	wg.Wait()
	var sessions int
	if err := e.Pool.QueryRow(t.Context(), "SELECT count(*) FROM sessions").Scan(&sessions); err != nil || sessions != 1 || won.Load() != 1 {
		t.Errorf("%d sessions, %d winners, %v", sessions, won.Load(), err)
	}
	late, err := e.api.FirstAdminLink(t.Context(), "root@example.org")
	if err != nil {
		t.Fatal(err)
	}
	e.Exec(t, "UPDATE sign_in_links SET expires_at = now() - interval '1 second'")
	for name, code := range map[string]string{"too late": late.Code, "none of ours": "gpa_" + late.Code[5:] + "x", "another kind": "gpb_" + late.Code[4:], "empty": ""} {
		_, err := e.api.UseLink(t.Context(), code, from)
		identitytest.WantCode(t, name, err, errs.LoginFailed)
	}
	_, err = e.api.FirstAdminLink(t.Context(), "dev@dev.localhost")
	identitytest.WantCode(t, "a user who is no administrator", err, errs.Conflict)
	var minutes int
	if _, err := e.api.FirstAdminLink(t.Context(), "root@example.org"); err != nil {
		t.Fatal(err)
	}
	if err := e.Pool.QueryRow(t.Context(), "SELECT round(extract(epoch FROM max(expires_at) - now()) / 60) FROM sign_in_links").Scan(&minutes); err != nil || minutes != 15 {
		t.Errorf("lives for %d minutes, %v", minutes, err)
	}
}

func TestCodeIsForWhoIsAnAdministratorLongest(t *testing.T) {
	t.Parallel()
	e := enter(t)
	e.Exec(t, "UPDATE users SET role = 'user'")
	_, err := e.api.FirstAdminLink(t.Context(), "")
	identitytest.WantCode(t, "without any administrator", err, errs.NotFound)
	for _, email := range []string{"First@example.org", "second@example.org"} {
		if _, err := e.api.FirstAdminLink(t.Context(), email); err != nil {
			t.Fatal(err)
		}
	}
	link, err := e.api.FirstAdminLink(t.Context(), "")
	if err != nil || link.Email != "first@example.org" || link.For != 15*time.Minute {
		t.Errorf("%+v, %v", link, err)
	}
	var issuer string
	err = e.Pool.QueryRow(t.Context(), "SELECT oidc_issuer FROM users WHERE email = 'first@example.org'").Scan(&issuer)
	if rows := e.audited(t, "user.sign_in_link"); err != nil || issuer != "local" || rows != 3 {
		t.Errorf("issuer %s, %d audit rows, %v", issuer, rows, err)
	}
}
