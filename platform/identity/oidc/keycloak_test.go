package oidc_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/platform/identity/oidc"
	"github.com/gpuaas/gpuaas/platform/identity/signin"
)

// keycloak is a real Keycloak with the realm of the guide.
type keycloak struct {
	*testing.T

	address string
	token   string // of its administrator
}

const (
	realmRedirect = "http://localhost:8080/auth/callback"
	testVerifier  = "verifier-verifier-verifier-verifier-verifier-1"
)

// startKeycloak runs the distribution that make test-keycloak has unpacked.
func startKeycloak(t *testing.T) *keycloak {
	t.Helper()
	distribution := os.Getenv("GPUAAS_TEST_KEYCLOAK")
	if distribution == "" {
		t.Skip("make test-keycloak runs this against a real Keycloak")
	}
	home := filepath.Join(t.TempDir(), "keycloak")
	realm, err := os.ReadFile("../../../deploy/keycloak/realm.json")
	must(t, errors.Join(err, os.CopyFS(home, os.DirFS(distribution)), os.MkdirAll(filepath.Join(home, "data", "import"), 0o755)))
	must(t, errors.Join(os.WriteFile(filepath.Join(home, "data", "import", "realm.json"), realm, 0o600), os.Chmod(filepath.Join(home, "bin", "kc.sh"), 0o755)))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, errors.Join(err, l.Close()))
	k := &keycloak{T: t, address: "http://localhost:" + port}
	var said bytes.Buffer
	cmd := exec.Command(filepath.Join(home, "bin", "kc.sh"), "start-dev", "--import-realm", "--http-port="+port, "--hostname="+k.address)
	cmd.Env = append(os.Environ(), "KC_BOOTSTRAP_ADMIN_USERNAME=admin", "KC_BOOTSTRAP_ADMIN_PASSWORD=admin", "JAVA_OPTS_APPEND=-Xmx512m")
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = &said, &said, &syscall.SysProcAttr{Setpgid: true}
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	for end := time.Now().Add(4 * time.Minute); ; time.Sleep(time.Second) {
		resp, err := http.Get(k.address + "/realms/gpuaas/.well-known/openid-configuration")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatal("Keycloak did not start")
		}
	}
	var got struct {
		Token string `json:"access_token"`
	}
	form := url.Values{"grant_type": {"password"}, "client_id": {"admin-cli"}, "username": {"admin"}, "password": {"admin"}}
	resp, err := http.PostForm(k.address+"/realms/master/protocol/openid-connect/token", form)
	must(t, err)
	must(t, errors.Join(json.NewDecoder(resp.Body).Decode(&got), resp.Body.Close()))
	k.token = got.Token
	return k
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// admin sends a request to the administration API of the realm, and decodes the response.
func (k *keycloak) admin(method, path string, body, into any) {
	k.Helper()
	text, err := json.Marshal(body)
	must(k.T, err)
	r, err := http.NewRequestWithContext(k.Context(), method, k.address+"/admin/realms/gpuaas"+path, bytes.NewReader(text))
	must(k.T, err)
	r.Header.Set("Authorization", "Bearer "+k.token)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	must(k.T, err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= http.StatusMultipleChoices {
		k.Fatalf("%s %s: %s", method, path, resp.Status)
	}
	if into != nil {
		must(k.T, json.NewDecoder(resp.Body).Decode(into))
	}
}

func (k *keycloak) userID(email string) string {
	k.Helper()
	var found []struct{ ID string }
	k.admin(http.MethodGet, "/users?exact=true&email="+url.QueryEscape(email), nil, &found)
	if len(found) != 1 {
		k.Fatalf("%d users %s", len(found), email)
	}
	return found[0].ID
}

var formAction = regexp.MustCompile(`<form[^>]* action="([^"]+)"`)

// browser is a browser without scripts, which follows redirects within Keycloak only.
func (k *keycloak) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	must(k.T, err)
	return &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if !strings.HasPrefix(r.URL.String(), k.address) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
}

// signIn fills in the form of Keycloak, and exchanges the code.
func (k *keycloak) signIn(p *oidc.Provider, b *http.Client, email string) signin.Grant {
	k.Helper()
	to, err := p.AuthCodeURL(k.Context(), realmRedirect, "state", "nonce", testVerifier, signin.Again{})
	must(k.T, err)
	resp, err := b.Get(to)
	must(k.T, err)
	page, err := io.ReadAll(resp.Body)
	must(k.T, errors.Join(err, resp.Body.Close()))
	if action := formAction.FindSubmatch(page); action != nil {
		resp, err = b.PostForm(html.UnescapeString(string(action[1])), url.Values{"username": {email}, "password": {"gpuaas"}})
		must(k.T, err)
		_ = resp.Body.Close()
	}
	back, err := url.Parse(resp.Header.Get("Location"))
	must(k.T, err)
	g, err := p.Exchange(k.Context(), realmRedirect, back.Query().Get("code"), "nonce", testVerifier)
	if err != nil {
		k.Fatalf("%s, back at %s: %v", resp.Status, back, err)
	}
	return g
}

// TestRealKeycloak checks what the sign-in needs of a provider: identity and roles, rotated refresh tokens, and their end
// with a disabled user, a sign-out at the provider, and a revocation.
func TestRealKeycloak(t *testing.T) {
	t.Parallel()
	k := startKeycloak(t)
	p := oidc.New(oidc.Config{
		Issuer: k.address + "/realms/gpuaas", ClientID: "gpuaas", ClientSecret: "gpuaas-development", CLIClientID: "gpuaas-cli", Audience: "gpuaas-api",
		RolesClaim: "realm_access.roles", Roles: map[string]string{"gpuaas-admin": "admin", "gpuaas-operator": "operator"}, Clock: clock.Clock{},
	})
	const email = "operator@dev.localhost"
	refreshes := func(g signin.Grant) (signin.Grant, errs.Code) {
		next, err := p.Refresh(t.Context(), g.Refresh, false)
		return next, errs.CodeOf(err)
	}
	first := k.signIn(p, k.browser(), email)
	if v := first.Verified; v.Email != email || !v.EmailVerified || v.Role != "operator" || v.SignIn.At.IsZero() || first.ID == "" || first.Refresh == "" {
		t.Fatalf("%+v", first)
	}
	if v, err := p.Verify(t.Context(), first.Access); err != nil || v.Subject != first.Verified.Subject {
		t.Errorf("%+v, %v", v, err)
	}
	second, code := refreshes(first)
	if code != "" || second.Refresh == first.Refresh || second.Verified.Role != "operator" {
		t.Fatalf("a refresh: %s %+v", code, second.Verified)
	}
	user := k.userID(email)
	var roles []map[string]any
	k.admin(http.MethodGet, "/users/"+user+"/role-mappings/realm", nil, &roles)
	for _, role := range roles {
		if role["name"] == "gpuaas-operator" {
			k.admin(http.MethodDelete, "/users/"+user+"/role-mappings/realm", []any{role}, nil)
		}
	}
	third, code := refreshes(second)
	if code != "" || third.Verified.Role != "user" {
		t.Errorf("after the role was removed: %s %+v", code, third.Verified)
	}
	k.admin(http.MethodPut, "/users/"+user, map[string]any{"enabled": false}, nil)
	if _, code := refreshes(third); code != errs.TokenInvalid {
		t.Errorf("of a disabled user: %q", code)
	}
	k.admin(http.MethodPut, "/users/"+user, map[string]any{"enabled": true}, nil)

	b := k.browser()
	g := k.signIn(p, b, "dev@dev.localhost")
	to, err := p.EndSessionURL(t.Context(), g.ID, "http://localhost:8080/")
	must(t, err)
	resp, err := b.Get(to)
	must(t, err)
	_ = resp.Body.Close()
	if location := resp.Header.Get("Location"); resp.StatusCode != http.StatusFound || location != "http://localhost:8080/" {
		t.Errorf("the sign-out leads to %s %q", resp.Status, location)
	}
	if _, code := refreshes(g); code != errs.TokenInvalid {
		t.Errorf("after a sign-out at the provider: %q", code)
	}

	g = k.signIn(p, k.browser(), "dev@dev.localhost")
	must(t, p.Revoke(t.Context(), g.Refresh, false))
	if _, code := refreshes(g); code != errs.TokenInvalid {
		t.Errorf("after a revocation: %q", code)
	}
	wrong := oidc.New(oidc.Config{Issuer: p.Issuer(), ClientID: "gpuaas", ClientSecret: "another", Audience: "gpuaas-api", Clock: clock.Clock{}})
	g = k.signIn(p, k.browser(), "dev@dev.localhost")
	if _, err := wrong.Refresh(t.Context(), g.Refresh, false); errs.CodeOf(err) != errs.ProviderFailed {
		t.Errorf("with another secret of the client: %v", err)
	}
}
