package rest_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/policies"
)

var update = flag.Bool("update", false, "write the golden files")

// TestOddRequests compares the responses to mistakes of new users with a golden file: each names the place of the mistake and
// what to do.
func TestOddRequests(t *testing.T) {
	t.Parallel()

	b := setup(t, provider)
	const skus, closedAdmission = "/api/v1/skus", "closed admission"
	var written strings.Builder
	for _, c := range []struct {
		name string
		call
	}{
		{"a bad name", call{method: "POST", path: allocations, token: tokenOwner, body: `{"sku":"h100-sxm","name":"My Training"}`}},
		{"an empty body", call{method: "POST", path: allocations, token: tokenOwner, body: `{}`}},
		{"no body", call{method: "POST", path: allocations, token: tokenOwner}},
		{"an empty body where the operation has none", call{method: "POST", path: allocations + "/01990f3e-0000-7000-8000-000000000009/release", token: tokenOwner, body: `{}`}},
		{"a body where the operation has none", call{method: "DELETE", path: "/api/v1/api-keys/01990f3e-0000-7000-8000-000000000009", token: tokenOwner, body: `{"force":true}`}},
		{"an unknown field", call{method: "POST", path: allocations, token: tokenOwner, body: `{"sku":"h100-sxm","gpu":1}`}},
		{"an unknown SKU", call{method: "POST", path: allocations, token: tokenOwner, body: `{"sku":"h1000"}`}},
		{"an unknown value of a filter", call{method: "GET", path: allocations + "?status=running", token: tokenOwner}},
		{"an unknown parameter", call{method: "GET", path: allocations + "?state=active", token: tokenOwner}},
		{"an empty limit", call{method: "GET", path: allocations + "?limit=", token: tokenOwner}},
		{"a limit that is no number", call{method: "GET", path: allocations + "?limit=all", token: tokenOwner}},
		{"an empty idempotency key", call{method: "POST", path: allocations, token: tokenOwner, body: `{"sku":"h100-sxm"}`, header: map[string]string{"Idempotency-Key": ""}}},
		{"an empty project", call{method: "GET", path: allocations, token: tokenOwner, header: map[string]string{"X-Project-ID": ""}}},
		{"a month that is none", call{method: "GET", path: "/api/v1/billing/statements/2026-13", token: tokenOwner}},
		{"no token", call{method: "GET", path: skus}},
		{"the secret of a service account as a token", call{method: "GET", path: skus, token: "gps_" + strings.Repeat("A", 43)}},
		{"a token for the enrolment of a node as a token", call{method: "GET", path: skus, token: "gpe_" + strings.Repeat("A", 43)}},
		{"an API key that does not exist", call{method: "GET", path: skus, token: tokenUnknown}},
		{"a token in the URL", call{method: "GET", path: skus + "?token=gpk_x", token: tokenOwner}},
		{"an unknown scope", call{method: "POST", path: "/api/v1/projects/" + project.String() + "/service-accounts", token: tokenOwner, body: `{"name":"ci","scopes":["everything"]}`}},
		{"a scope that a token lacks", call{method: "POST", path: allocations, token: tokenReader, body: `{"sku":"h100-sxm"}`}},
		{"an unknown value in a body", call{method: "POST", path: "/api/v1/tenant/invitations", token: tokenOwner, body: `{"email":"new@dev.localhost","role":"boss"}`}},
		{"a role that allows less, and a body that is none", call{method: "POST", path: "/api/v1/admin/users", token: tokenMember, body: `{`}},
		{"an SSH key that does not exist", call{method: "POST", path: allocations, token: tokenOwner, body: `{"sku":"h100-sxm","ssh_key_ids":["01990f3e-0000-7000-8000-000000000009"]}`}},
		{"another currency", call{method: "POST", path: "/api/v1/payments/checkout-session", token: tokenOwner, body: `{"amount_minor":5000,"currency":"USD"}`}},
		{"the method of another path", call{method: "GET", path: "/api/v1/service-accounts/token", token: tokenOwner}},
		{"an unknown path", call{method: "GET", path: "/api/v1/allocation", token: tokenOwner}},
		{closedAdmission, call{method: "POST", path: allocations, token: tokenOwner, body: `{"sku":"h100-sxm"}`}},
	} {
		if c.name == closedAdmission {
			b.policy(string(policies.PlatformAdmission), policies.Platform, `"closed"`)
		}
		w := b.do(t, c.call)
		fmt.Fprintf(&written, "# %s\n%s %s %s\n%d", c.name, c.method, c.path, c.body, w.Code)
		if w.Code >= 400 {
			p := problem(t, w)
			fmt.Fprintf(&written, " %s: %s", p.Code, p.Message)
			for _, detail := range []string{"field", "suggestion"} {
				if value, ok := p.Details[detail]; ok {
					fmt.Fprintf(&written, "\n  %s: %v", detail, value)
				}
			}
		}
		written.WriteString("\n\n")
	}
	const file = "testdata/odd-requests.golden"
	text := strings.ReplaceAll(written.String(), project.String(), "PROJECT")
	if *update {
		must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != text {
		t.Errorf("%v; got\n%s", err, text)
	}
}
