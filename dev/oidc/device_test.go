package oidc_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/gpuaas/gpuaas/dev/oidc/oidctest"
)

func TestDeviceFlow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	begun, err := b.cli.DeviceAuth(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if pending := b.poll(t, begun.DeviceCode); pending != "authorization_pending" {
		t.Errorf("before anybody approved: %s", pending)
	}
	if _, page := b.get(t, "/device?user_code=NOPE-NOPE"); !strings.Contains(page, "No device waits") {
		t.Errorf("an unknown code: %s", page)
	}
	oidctest.Approve(t, begun.VerificationURIComplete, dev)
	token, err := b.cli.DeviceAccessToken(t.Context(), begun)
	if err != nil {
		t.Fatal(err)
	}
	if part(t, token.AccessToken, 1)["sub"] != dev || token.RefreshToken == "" {
		t.Errorf("%+v", token)
	}
	if again := b.poll(t, begun.DeviceCode); again != "invalid_grant" {
		t.Errorf("the same device code again: %s", again)
	}
}

func TestDeviceIsRejected(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func(*testing.T, *bundle, *oauth2.DeviceAuthResponse){
		"access_denied": func(t *testing.T, _ *bundle, d *oauth2.DeviceAuthResponse) {
			t.Helper()
			oidctest.Approve(t, d.VerificationURIComplete, "")
		},
		"expired_token": func(_ *testing.T, b *bundle, _ *oauth2.DeviceAuthResponse) { b.wait(11 * time.Minute) },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			begun, err := b.cli.DeviceAuth(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			spoil(t, b, begun)
			if got := b.poll(t, begun.DeviceCode); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
	b := setup(t)
	_, err := b.web.DeviceAuth(t.Context())
	if err == nil {
		t.Error("a client without the device flow may use it")
	}
}

func (b *bundle) poll(t *testing.T, device string) string {
	t.Helper()
	answer, err := http.PostForm(b.URL+"/token", url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {device}, "client_id": {cli},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	var said struct {
		Error string `json:"error"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&said); err != nil {
		t.Fatal(err)
	}
	return said.Error
}
