package rest_test

import (
	"net/url"
	"testing"

	"github.com/gpuaas/gpuaas/policies"
)

// Each response has the notice, in an encoding that no text leaves, until it is removed.
func TestNoticeOfThePlatform(t *testing.T) {
	t.Parallel()
	b := setup(t)
	notice := func() string {
		t.Helper()
		text, err := url.PathUnescape(b.do(t, call{method: "GET", path: "/api/v1/skus", token: tokenOwner}).Header().Get("X-Platform-Notice"))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if got := notice(); got != "" {
		t.Errorf("%q without a notice", got)
	}
	b.policy(string(policies.PlatformNotice), policies.Platform, `"Wartung: Größe 100 % am Freitag"`)
	if got := notice(); got != "Wartung: Größe 100 % am Freitag" {
		t.Errorf("%q", got)
	}
	b.policy(string(policies.PlatformNotice), policies.Platform, `""`)
	if got := notice(); got != "" {
		t.Errorf("%q after its end", got)
	}
}
