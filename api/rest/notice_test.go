package rest_test

import (
	"net/url"
	"strings"
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
	long := strings.Repeat("維", 512)
	b.policy(string(policies.PlatformNotice), policies.Platform, `"`+long+`"`)
	if got := notice(); len(url.PathEscape(got)) > 2<<10 || !strings.HasSuffix(got, "維…") {
		t.Errorf("a long notice: %q", got)
	}
	b.policy(string(policies.PlatformNotice), policies.Platform, `"<script>alert(1)</script> & more"`)
	if page := b.do(t, call{method: "GET", path: "/?script=off"}); !strings.Contains(page.Body.String(), `<main>
<p role="status">&lt;script&gt;alert(1)&lt;/script&gt; &amp; more</p>`) {
		t.Errorf("the page is %s", page.Body)
	}
	b.policy(string(policies.PlatformNotice), policies.Platform, `""`)
	if page := b.do(t, call{method: "GET", path: "/?script=off"}); strings.Contains(page.Body.String(), "role=\"status\"") {
		t.Errorf("the page without a notice is %s", page.Body)
	}
	if got := notice(); got != "" {
		t.Errorf("%q after its end", got)
	}
}
