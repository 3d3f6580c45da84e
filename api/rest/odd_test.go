package rest_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// TestOddRequests compares the responses to mistakes of new users with a golden file: each names the place of the mistake and
// what to do.
func TestOddRequests(t *testing.T) {
	t.Parallel()

	b := setup(t)
	const skus = "/api/v1/skus"
	var text strings.Builder
	for _, c := range []struct {
		name string
		ask
	}{
		{"a bad name", ask{method: "POST", path: allocations, token: tokenOwner, body: `{"sku":"h100-sxm","name":"My Training"}`}},
		{"an empty body", ask{method: "POST", path: allocations, token: tokenOwner, body: `{}`}},
		{"no body", ask{method: "POST", path: allocations, token: tokenOwner}},
		{"an empty body where the operation has none", ask{method: "POST", path: allocations + "/01990f3e-0000-7000-8000-000000000009/release", token: tokenOwner, body: `{}`}},
		{"a body where the operation has none", ask{method: "DELETE", path: "/api/v1/api-keys/01990f3e-0000-7000-8000-000000000009", token: tokenOwner, body: `{"force":true}`}},
		{"an unknown field", ask{method: "POST", path: allocations, token: tokenOwner, body: `{"sku":"h100-sxm","gpu":1}`}},
		{"an unknown SKU", ask{method: "POST", path: allocations, token: tokenOwner, body: `{"sku":"h1000"}`}},
		{"an unknown value of a filter", ask{method: "GET", path: allocations + "?status=running", token: tokenOwner}},
		{"an unknown parameter", ask{method: "GET", path: allocations + "?state=active", token: tokenOwner}},
		{"an empty limit", ask{method: "GET", path: allocations + "?limit=", token: tokenOwner}},
		{"a limit that is no number", ask{method: "GET", path: allocations + "?limit=all", token: tokenOwner}},
		{"an empty idempotency key", ask{method: "POST", path: allocations, token: tokenOwner, body: `{"sku":"h100-sxm"}`, header: map[string]string{"Idempotency-Key": ""}}},
		{"an empty project", ask{method: "GET", path: allocations, token: tokenOwner, header: map[string]string{"X-Project-ID": ""}}},
		{"a month that is none", ask{method: "GET", path: "/api/v1/billing/statements/2026-13", token: tokenOwner}},
		{"no token", ask{method: "GET", path: skus}},
		{"the secret of a service account as a token", ask{method: "GET", path: skus, token: "gps_" + strings.Repeat("A", 43)}},
		{"an unknown scope", ask{method: "POST", path: "/api/v1/projects/01990f3e-0000-7000-8000-000000000009/service-accounts", token: tokenOwner, body: `{"name":"ci","scopes":["everything"]}`}},
		{"an unknown path", ask{method: "GET", path: "/api/v1/allocation", token: tokenOwner}},
	} {
		w := b.do(t, c.ask)
		fmt.Fprintf(&text, "# %s\n%s %s %s\n%d", c.name, c.method, c.path, c.body, w.Code)
		if w.Code >= 400 {
			p := problem(t, w)
			fmt.Fprintf(&text, " %s: %s", p.Code, p.Message)
			for _, detail := range []string{"field", "suggestion"} {
				if value, ok := p.Details[detail]; ok {
					fmt.Fprintf(&text, "\n  %s: %v", detail, value)
				}
			}
		}
		text.WriteString("\n\n")
	}
	const file = "testdata/odd-requests.golden"
	if *update {
		must(t, os.WriteFile(file, []byte(text.String()), 0o600))
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != text.String() {
		t.Errorf("%v; got\n%s", err, text.String())
	}
}
