package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/api/oapi"
	"github.com/gpuaas/gpuaas/api/rest"
	"github.com/gpuaas/gpuaas/api/rest/middleware"
	"github.com/gpuaas/gpuaas/api/rest/request"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/ids"
	"github.com/gpuaas/gpuaas/platform/identity"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
	"github.com/gpuaas/gpuaas/policies"
)

// question begins a sign-in in a browser and returns its cookie and state.
func (b *fixture) question(t *testing.T, back string) (*http.Cookie, string) {
	t.Helper()
	w := b.visit(t, "GET", "/api/v1/auth/oidc/authorize?return_to="+url.QueryEscape(back), "")
	to, err := url.Parse(w.Header().Get("Location"))
	if w.Code != 302 || err != nil || to.Host != "id.example" || len(w.Result().Cookies()) != 1 {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	return w.Result().Cookies()[0], to.Query().Get("state")
}

// answer returns the address to which the provider redirects the owner.
func answer(state string) string {
	return "/auth/callback?" + url.Values{"code": {nameOf(tokenOwner)}, "state": {state}, "session_state": {"x"}}.Encode()
}

// cookies of an answer, by name.
func cookiesOf(w *httptest.ResponseRecorder) map[string]*http.Cookie {
	all := map[string]*http.Cookie{}
	for _, c := range w.Result().Cookies() {
		all[c.Name] = c
	}
	return all
}

func TestProviderSignsABrowserIn(t *testing.T) {
	t.Parallel()

	b := setup(t, provider)
	asked, state := b.question(t, "/api/docs")
	if asked.Name != "gpuaas_signin-"+state[:8] || !asked.HttpOnly || asked.SameSite != http.SameSiteLaxMode || asked.MaxAge != 600 || strings.Contains(asked.Value, state) {
		t.Errorf("%+v", asked)
	}
	w := b.visit(t, "GET", answer(state), "", with(asked))
	set := cookiesOf(w)
	if w.Code != 303 || w.Header().Get("Location") != "/api/docs" || set["gpuaas_session"] == nil || set[asked.Name].MaxAge >= 0 {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := b.visit(t, "GET", "/api/v1/users/me", "", with(set["gpuaas_session"])); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := b.visit(t, "GET", answer(state), "", with(asked)); w.Code != 400 || cookiesOf(w)["gpuaas_session"] != nil {
		t.Errorf("the same answer twice: %d", w.Code)
	}
}

// A browser that removes the parameters of the step-up, or a provider that ignores them, gets no session. An
// administrator who signs in without the second factor is sent to the provider once more, and no further.
func TestStepUpIsASignInOfThisMoment(t *testing.T) {
	t.Parallel()

	b := setup(t, provider)
	begin := func() (*http.Cookie, string) {
		w := b.visit(t, "GET", "/api/v1/auth/oidc/authorize?step_up=true&return_to=/x", "")
		to, err := url.Parse(w.Header().Get("Location"))
		must(t, err)
		return w.Result().Cookies()[0], to.Query().Get("state")
	}
	b.provider.signIn.At = t0.Add(-time.Hour)
	asked, state := begin()
	if got := strings.Join(b.provider.sent, " "); got != "prompt=login max_age=0" {
		t.Errorf("requests %s", got)
	}
	if w := b.visit(t, "GET", answer(state), "", with(asked)); w.Code != 401 || cookiesOf(w)["gpuaas_session"] != nil {
		t.Errorf("a sign-in of an hour ago: %d %s", w.Code, w.Body)
	}
	b.provider.signIn.At = t0
	asked, state = begin()
	w := b.visit(t, "GET", answer(state), "", with(asked))
	session := cookiesOf(w)["gpuaas_session"]
	if w.Code != 303 || session == nil {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	b.policy(string(policies.AuthStepUpMinutes), policies.Platform, "15")
	create := func(cookie *http.Cookie) int {
		asJSON := func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }
		return b.visit(t, "POST", "/api/v1/api-keys", `{"name":"`+unusedName("k")+`"}`, with(cookie), asJSON).Code
	}
	if code := create(session); code != 201 {
		t.Errorf("after a step-up: %d", code)
	}
	if w := b.do(t, call{method: "POST", path: "/api/v1/api-keys", token: tokenOwner, body: `{"name":"k"}`}); w.Code != 401 || problem(t, w).Code != "step_up_required" {
		t.Errorf("by an API key: %d %s", w.Code, w.Body)
	}
	if code := create(b.signIn(tokenOwner)); code != 401 {
		t.Errorf("by a session without a time: %d", code)
	}

	b.policy(string(policies.AuthAdminAcr), policies.Platform, `"urn:2fa"`)
	b.sql(`UPDATE users SET role = 'admin' WHERE id = $1`, users[tokenOwner])
	asked, state = b.question(t, "/x")
	w = b.visit(t, "GET", answer(state), "", with(asked))
	if w.Code != 303 || w.Header().Get("Location") != "/api/v1/auth/oidc/authorize?return_to=%2Fx&step_up=true" || cookiesOf(w)["gpuaas_session"] != nil {
		t.Errorf("without the second factor: %d %v", w.Code, w.Header())
	}
	asked, state = begin()
	if got := strings.Join(b.provider.sent, " "); got != "prompt=login max_age=0 acr_values=urn:2fa" {
		t.Errorf("requests %s", got)
	}
	if w := b.visit(t, "GET", answer(state), "", with(asked)); w.Code != 401 || cookiesOf(w)["gpuaas_session"] != nil {
		t.Errorf("without it again: %d %s", w.Code, w.Body)
	}
	b.provider.signIn.Methods = "urn:2fa"
	asked, state = begin()
	if w := b.visit(t, "GET", answer(state), "", with(asked)); w.Code != 303 || cookiesOf(w)["gpuaas_session"] == nil {
		t.Errorf("with it: %d %s", w.Code, w.Body)
	}
}

func TestAResponseCountsForItsRequestOnly(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		visit func(b *fixture, asked *http.Cookie, state string) *httptest.ResponseRecorder
		want  int
	}{
		"another browser": {func(b *fixture, _ *http.Cookie, state string) *httptest.ResponseRecorder {
			return b.visit(t, "GET", answer(state), "")
		}, 400},
		"another state": {func(b *fixture, asked *http.Cookie, _ string) *httptest.ResponseRecorder {
			return b.visit(t, "GET", answer("x"), "", with(asked))
		}, 400},
		"no state": {func(b *fixture, asked *http.Cookie, _ string) *httptest.ResponseRecorder {
			return b.visit(t, "GET", answer(""), "", with(asked))
		}, 400},
		"the provider's no": {func(b *fixture, asked *http.Cookie, state string) *httptest.ResponseRecorder {
			return b.visit(t, "GET", "/auth/callback?error=access_denied&error_description=<b>call+0900</b>&state="+state, "", with(asked))
		}, 401},
		"a changed cookie": {func(b *fixture, asked *http.Cookie, state string) *httptest.ResponseRecorder {
			asked.Value = asked.Value[:20] + "A" + asked.Value[21:]
			return b.visit(t, "GET", answer(state), "", with(asked))
		}, 400},
		"too late": {func(b *fixture, asked *http.Cookie, state string) *httptest.ResponseRecorder {
			b.now = b.now.Add(10 * time.Minute)
			return b.visit(t, "GET", answer(state), "", with(asked))
		}, 400},
	} {
		b := setup(t, provider)
		asked, state := b.question(t, "/")
		w := c.visit(b, asked, state)
		if w.Code != c.want || cookiesOf(w)["gpuaas_session"] != nil || strings.Contains(w.Body.String(), "0900") || !strings.Contains(w.Body.String(), `role="alert"`) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestSignInLeadsNowhereElse(t *testing.T) {
	t.Parallel()

	b := setup(t, provider)
	for _, back := range []string{"//evil.example", "/\\evil.example", "/\t/evil.example", "/\x01/evil.example", "/ok"} {
		asked, state := b.question(t, back)
		w := b.visit(t, "GET", answer(state), "", with(asked))
		if to := w.Header().Get("Location"); back == "/ok" && to != back || back != "/ok" && to != "/" {
			t.Errorf("%q leads to %q", back, to)
		}
	}
	if w := b.visit(t, "GET", "/sign-in?return=//evil.example", ""); w.Code != 302 || w.Header().Get("Location") != "/api/v1/auth/oidc/authorize?return_to=%2F" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := setup(t).visit(t, "GET", "/sign-in", ""); w.Code != 404 {
		t.Errorf("without a provider: %d", w.Code)
	}
}

func TestExchange(t *testing.T) {
	t.Parallel()

	b := setup(t, provider)
	post := func(body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
		asJSON := func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }
		return b.visit(t, "POST", "/api/v1/auth/oidc/exchange", body, append([]func(*http.Request){asJSON}, change...)...)
	}
	asked, state := b.question(t, "/")
	evil := func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }
	if w := post(`{"code":"owner","state":"`+state+`"}`, with(asked), evil); w.Code != 403 {
		t.Errorf("from another site: %d %s", w.Code, w.Body)
	}
	if w := post(`{"code":"owner","state":"` + state + `"}`); w.Code != 400 || problem(t, w).Code != "oidc_exchange_failed" {
		t.Errorf("without the cookie: %d %s", w.Code, w.Body)
	}
	w := post(`{"code":"owner","state":"`+state+`"}`, with(asked))
	var in oapi.SignedIn
	if err := json.Unmarshal(w.Body.Bytes(), &in); err != nil || w.Code != 200 || in.User.Id != users[tokenOwner].UUID || in.Token != nil || cookiesOf(w)["gpuaas_session"] == nil {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := post(`{"id_token":"owner"}`); w.Code != 200 || cookiesOf(w)["gpuaas_session"] != nil {
		t.Errorf("a program's ID token: %d %s", w.Code, w.Body)
	}
	for body, want := range map[string]int{`{"id_token":"x"}`: 401, `{}`: 400, `{"code":"owner"}`: 400, `{"id_token":"owner","code":"x","state":"y"}`: 400} {
		if w := post(body); w.Code != want {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if w := setup(t).do(t, call{method: "POST", path: "/api/v1/auth/oidc/exchange", body: `{"id_token":"owner"}`}); w.Code != 404 {
		t.Errorf("without a provider: %d", w.Code)
	}
}

// A password cannot be guessed from many addresses at once, by the API or by the page, and the attempts do not
// lock its user out: the account is throttled for strangers, and works again after a minute, or at once where
// the user has signed in before.
func TestSignInIsLimitedByAccount(t *testing.T) {
	t.Parallel()

	b := setup(t, passwords, func(_ *fixture, c *rest.Config) {
		c.Limits = func(class request.Class, _ identity.Caller) middleware.Limit {
			if class == request.ClassAccount {
				return middleware.Limit{PerMinute: 5, Burst: 5}
			}
			return middleware.Limit{PerMinute: 1000, Burst: 1000}
		}
	})
	address := 0
	try := func(from, email, password string) int {
		if from == "" {
			address++
			from = fmt.Sprintf("198.51.%d.%d:1", address/250, address%250+1)
		}
		return b.do(t, call{method: "POST", path: "/api/v1/auth/personal/login", from: from, body: `{"email":"` + email + `","password":"` + password + `"}`}).Code
	}
	owner := emailOf(tokenOwner)
	if code := try("203.0.113.9:1", owner, rightPassword); code != 200 {
		t.Fatalf("the usual address: %d", code)
	}
	for _, email := range []string{owner, "nobody@dev.localhost"} {
		codes := map[int]int{}
		for i := range 12 {
			codes[try("", []string{email, strings.ToUpper(email)}[i%2], "wrong-wrong-wrong")]++
		}
		if codes[401] > 5 || codes[429] < 7 {
			t.Errorf("%s: %v", email, codes)
		}
	}
	form := url.Values{"email": {owner}, "password": {rightPassword}}.Encode()
	if w := b.visit(t, "POST", "/sign-in", form, func(r *http.Request) { r.RemoteAddr = "198.51.100.77:1" }); w.Code != 429 || w.Header().Get("Retry-After") == "" {
		t.Errorf("the page, from elsewhere: %d", w.Code)
	}
	if code := try("", emailOf(tokenMember), "wrong-wrong-wrong"); code != 401 {
		t.Errorf("another account: %d", code)
	}
	if code := try("203.0.113.9:2", owner, rightPassword); code != 200 {
		t.Errorf("the user at the usual address is locked out: %d", code)
	}
	b.now = b.now.Add(time.Minute)
	if code := try("", owner, rightPassword); code != 200 {
		t.Errorf("the user elsewhere, after a minute: %d", code)
	}
}

func TestPasswordForProgramsAndBrowsers(t *testing.T) {
	t.Parallel()

	b := setup(t, passwords)
	body := `{"email":"` + emailOf(tokenOwner) + `","password":"` + rightPassword + `"}`
	login := call{method: "POST", path: "/api/v1/auth/personal/login", body: body}
	w := b.do(t, login)
	var in oapi.SignedIn
	if err := json.Unmarshal(w.Body.Bytes(), &in); err != nil || w.Code != 200 || in.Token == nil || in.ExpiresAt == nil || len(w.Result().Cookies()) != 0 {
		t.Errorf("a program: %d %s %v", w.Code, w.Body, w.Result().Cookies())
	}
	login.header = map[string]string{"Origin": "http://example.com"}
	if w := b.do(t, login); w.Code != 200 || cookiesOf(w)["gpuaas_session"] == nil || strings.Contains(w.Body.String(), "gpb_") || strings.Contains(w.Body.String(), `"token"`) {
		t.Errorf("a browser: %d %s", w.Code, w.Body)
	}
	login.header = map[string]string{"Origin": "https://evil.example"}
	if w := b.do(t, login); w.Code != 403 || len(w.Result().Cookies()) != 0 {
		t.Errorf("a foreign page: %d", w.Code)
	}
	wrong := call{method: "POST", path: login.path, body: strings.Replace(body, "horse", "house", 1)}
	if w := b.do(t, wrong); w.Code != 401 || problem(t, w).Code != "login_failed" {
		t.Errorf("another password: %d %s", w.Code, w.Body)
	}
	if w := b.visit(t, "POST", "/sign-in", url.Values{"email": {"owner@dev.localhost"}, "password": {"wrong"}}.Encode()); w.Code != 401 || !strings.Contains(w.Body.String(), `role="alert"`) {
		t.Errorf("the page: %d %s", w.Code, w.Body)
	}
}

func TestRenewingAndLeaving(t *testing.T) {
	t.Parallel()

	b := setup(t, provider)
	asked, state := b.question(t, "/")
	cookie := cookiesOf(b.visit(t, "GET", answer(state), "", with(asked)))["gpuaas_session"]
	const refresh, logout = "/api/v1/auth/token/refresh", "/api/v1/auth/logout"
	if w := b.do(t, call{method: "POST", path: refresh, body: `{"refresh_token":"owner"}`}); w.Code != 200 || !strings.Contains(w.Body.String(), `"expires_in":300`) {
		t.Errorf("a program: %d %s", w.Code, w.Body)
	}
	if w := b.do(t, call{method: "POST", path: refresh, body: `{"refresh_token":"old"}`}); w.Code != 401 || problem(t, w).Code != "token_invalid" {
		t.Errorf("an old one: %d %s", w.Code, w.Body)
	}
	if w := b.do(t, call{method: "POST", path: refresh}); w.Code != 401 || problem(t, w).Code != "token_missing" {
		t.Errorf("nothing: %d %s", w.Code, w.Body)
	}
	evil := func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }
	if w := b.visit(t, "POST", refresh, "", with(cookie), evil); w.Code != 403 {
		t.Errorf("another site: %d %s", w.Code, w.Body)
	}
	if w := b.visit(t, "POST", refresh, "", with(cookie)); w.Code != 200 || strings.Contains(w.Body.String(), "access_token") {
		t.Errorf("a session: %d %s", w.Code, w.Body)
	}

	b.provider.revoking = errs.New(errs.ProviderFailed, "away")
	w := b.visit(t, "POST", logout, "", with(cookie))
	if w.Code != 202 || cookiesOf(w)["gpuaas_session"].MaxAge >= 0 || !strings.Contains(b.log.String(), "not revoked at the provider") {
		t.Errorf("%d %v %s", w.Code, w.Header(), b.log)
	}
	w = b.visit(t, "POST", refresh, "", with(cookie))
	if w.Code != 401 || cookiesOf(w)["gpuaas_session"].MaxAge >= 0 {
		t.Errorf("after it: %d %v", w.Code, w.Header())
	}
}

// Two tabs of a browser sign in at once, and neither disturbs the other. A browser has a bounded number of cookies.
func TestTwoTabsSignIn(t *testing.T) {
	t.Parallel()

	b := setup(t, provider)
	first, one := b.question(t, "/one")
	second, two := b.question(t, "/two")
	for state, want := range map[string]string{one: "/one", two: "/two"} {
		w := b.visit(t, "GET", answer(state), "", with(first), with(second))
		if w.Code != 303 || w.Header().Get("Location") != want {
			t.Errorf("%s: %d %v", want, w.Code, w.Header())
		}
	}
	jar := map[string]*http.Cookie{}
	for range 12 {
		r := make([]func(*http.Request), 0, len(jar))
		for _, c := range jar {
			r = append(r, with(c))
		}
		w := b.visit(t, "GET", "/api/v1/auth/oidc/authorize?return_to=/", "", r...)
		for _, c := range w.Result().Cookies() {
			if jar[c.Name] = c; c.MaxAge < 0 {
				delete(jar, c.Name)
			}
		}
	}
	if len(jar) == 0 || len(jar) > 5 {
		t.Errorf("%d cookies of sign-ins", len(jar))
	}
}

// The page names the error of the provider by our text, and the log has its own.
func TestRefusalsOfTheProviderReachPageAndLog(t *testing.T) {
	t.Parallel()

	b := setup(t, provider)
	for code, want := range map[string]string{"access_denied": "denied the sign-in", "invalid_scope": "does not grant the scopes", "<b>": "did not sign you in"} {
		asked, state := b.question(t, "/")
		text := url.Values{"error": {code}, "error_description": {"<i>described" + strings.Repeat("x", 1000)}, "state": {state}}.Encode()
		w := b.visit(t, "GET", "/auth/callback?"+text, "", with(asked))
		if w.Code != 401 || !strings.Contains(w.Body.String(), want) || strings.Contains(w.Body.String(), "described") || strings.Contains(w.Body.String(), "<b>") {
			t.Errorf("%s: %d %s", code, w.Code, w.Body)
		}
		if log := b.log.String(); !strings.Contains(log, "described") || strings.Contains(log, strings.Repeat("x", 400)) {
			t.Errorf("%s: in the log: %s", code, log)
		}
	}
}

// The page of a sign-out leads to the sign-out of the provider, and reports whether the provider was not notified.
func TestASignOutReachesTheProvider(t *testing.T) {
	t.Parallel()

	b := setup(t, provider)
	for _, failure := range []error{nil, errs.New(errs.ProviderFailed, "away")} {
		b.provider.revoking = nil
		asked, state := b.question(t, "/")
		session := cookiesOf(b.visit(t, "GET", answer(state), "", with(asked)))["gpuaas_session"]
		b.provider.revoking = failure
		w := b.visit(t, "POST", "/sign-out", "", with(session))
		const to = issuer + "/end?id_token_hint=id-of-owner&post_logout_redirect_uri="
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Refresh"), "0; url="+to) || cookiesOf(w)["gpuaas_session"].MaxAge >= 0 {
			t.Errorf("%d %v", w.Code, w.Header())
		}
		if later := strings.Contains(w.Body.String(), "notified later"); later != (failure != nil) {
			t.Errorf("%v: %s", failure, w.Body)
		}
	}
	w := b.visit(t, "POST", "/sign-out", "", with(b.signIn(tokenOwner)))
	if w.Code != 303 || w.Header().Get("Location") != "/" {
		t.Errorf("a session without tokens of the provider: %d %v", w.Code, w.Header())
	}
}

// A provider that has been away for hours prevents no sign-out: neither of the API nor of the page. Nothing else works.
func TestASignOutNeedsNoProvider(t *testing.T) {
	t.Parallel()

	b := setup(t, provider)
	for path, want := range map[string]int{"/api/v1/auth/logout": 202, "/sign-out": 200} {
		b.provider.revoking, b.provider.refreshing = nil, nil
		asked, state := b.question(t, "/")
		session := cookiesOf(b.visit(t, "GET", answer(state), "", with(asked)))["gpuaas_session"]
		b.provider.revoking = errs.New(errs.ProviderFailed, "away")
		b.provider.refreshing = b.provider.revoking
		_, err := b.db.Exec(t.Context(), `UPDATE sessions SET checked_at = now() - interval '3 hours', check_tried_at = NULL`)
		must(t, err)
		if w := b.visit(t, "GET", "/api/v1/users/me", "", with(session)); w.Code != 503 {
			t.Errorf("%s: another request: %d %s", path, w.Code, w.Body)
		}
		w := b.visit(t, "POST", path, "", with(session))
		if w.Code != want || cookiesOf(w)["gpuaas_session"].MaxAge >= 0 {
			t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
		var ended, audited int
		must(t, b.db.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE ended_at IS NOT NULL), (SELECT count(*) FROM audit_logs WHERE action = 'session.end' AND actor LIKE 'user:%') FROM sessions`).Scan(&ended, &audited))
		if ended == 0 || ended != audited {
			t.Errorf("%s: %d sessions ended, %d audit rows", path, ended, audited)
		}
	}
}

func TestFirstAdministratorBringsACode(t *testing.T) {
	t.Parallel()

	b := setup(t)
	operators := &signin.Service{Service: &identity.Service{DB: b.db, Naming: ids.DefaultNaming}}
	link, err := operators.FirstAdminLink(t.Context(), "")
	must(t, err)
	w := b.visit(t, "GET", "/first-admin", "")
	if policy := w.Header().Get("Content-Security-Policy"); w.Code != 200 || !strings.HasSuffix(policy, "; script-src 'self'") ||
		strings.Count(w.Body.String(), "<script") != 1 || !strings.Contains(w.Body.String(), `<script src="/assets/first-admin.js"></script>`) {
		t.Errorf("%d %s %s", w.Code, policy, w.Body)
	}
	if w := b.visit(t, "POST", "/first-admin", "code=gpa_wrong"); w.Code != 401 || !strings.Contains(w.Body.String(), `role="alert"`) {
		t.Errorf("another code: %d %s", w.Code, w.Body)
	}
	evil := func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }
	if w := b.visit(t, "POST", "/first-admin", "code="+link.Code, evil); w.Code != 403 {
		t.Errorf("another site: %d", w.Code)
	}
	w = b.visit(t, "POST", "/first-admin", "code="+link.Code)
	if w.Code != 303 || cookiesOf(w)["gpuaas_session"] == nil {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestOptionsAndKeysArePublic(t *testing.T) {
	t.Parallel()

	b := setup(t, provider, passwords)
	for path, want := range map[string]string{
		"/api/v1/auth/options": `"cli_client_id":"gpuaas-cli"`, "/.well-known/jwks.json": `"crv":"Ed25519"`,
	} {
		if w := b.do(t, call{method: "GET", path: path}); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	w := b.do(t, call{method: "POST", path: "/api/v1/service-accounts/token", body: `{"secret":"` + credential + `","scopes":["allocations:read"]}`})
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"token_type":"Bearer"`) || !strings.Contains(w.Body.String(), `"expires_in":3600`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// AUTH-12: a user who loses a right loses the stream within two seconds, and so
// do all users when rights cannot be read.
func TestLostRightEndsTheStream(t *testing.T) {
	t.Parallel()

	for name, lose := range map[string]func(*fixture){
		"the session ends": func(w *fixture) { w.sql(`UPDATE sessions SET ended_at = now()`) },
		"one of two roles is lost": func(w *fixture) {
			w.sql(`DELETE FROM project_memberships WHERE role = 'viewer' AND user_id = $1`, users[tokenMember])
		},
		"the role is lost": func(w *fixture) { w.sql(`DELETE FROM project_memberships WHERE user_id = $1`, users[tokenMember]) },
		"the project is another": func(w *fixture) {
			w.sql(`UPDATE projects SET deleted_at = now() WHERE id = $1`, project)
			w.addProject("another")
		},
		"the database is away": func(w *fixture) { w.database.fail("", 0, errs.New(errs.Unavailable, "away")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, ticking)
			if name == "one of two roles is lost" {
				b.sql(`INSERT INTO project_memberships (project_id, user_id, role) VALUES ($1, $2, 'viewer')`, b.addProject("second"), users[tokenMember])
			}
			open, ended := make(chan struct{}), make(chan int, 1)
			go func() {
				out := httptest.NewRecorder()
				b.handler.ServeHTTP(&opened{ResponseRecorder: out, flushed: open}, visitOf(t, "GET", "/api/v1/events", "", with(b.signIn(tokenMember))))
				ended <- out.Code
			}()
			<-open
			select {
			case code := <-ended:
				t.Fatalf("ended with %d while all was well", code)
			case <-time.After(1200 * time.Millisecond): // two checks have found nothing wrong
			}
			lose(b)
			select {
			case <-ended:
			case <-time.After(2500 * time.Millisecond): // with half a second for a busy computer
				t.Error("the stream goes on")
			}
		})
	}
}

// opened closes a channel with the first flush.
type opened struct {
	*httptest.ResponseRecorder

	ended   sync.Once
	flushed chan struct{}
}

func (o *opened) Flush() {
	o.ResponseRecorder.Flush()
	o.ended.Do(func() { close(o.flushed) })
}
