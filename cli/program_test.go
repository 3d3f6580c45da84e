package cli

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/cli/alloc"
	"github.com/gpuaas/gpuaas/cli/client"
	"github.com/gpuaas/gpuaas/internal/clock"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// A command that runs for longer than a token lives gets another in time, and no
// more than it needs: the credential should travel seldom.
func TestCredentialsAreTradedInTime(t *testing.T) {
	t.Parallel()

	f, server := newFake(t)
	defer server.Close()
	a := console(t, map[string]string{"GPUAAS_URL": server.URL, "GPUAAS_TOKEN": goodCredential})
	now := birth
	a.Clock = clock.At(func() time.Time { return now })
	c, err := client.Connect(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {0, 1}, {59 * time.Minute, 1}, {31 * time.Second, 2}, {59 * time.Minute, 2}, {time.Hour, 3}} {
		now = now.Add(step.after)
		if _, err := alloc.Skus(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if f.people.minted != step.want {
			t.Errorf("%s later: %d tokens, want %d", step.after, f.people.minted, step.want)
		}
	}
}

// Calls at the same time share one token.
func TestOneTradeServesAll(t *testing.T) {
	t.Parallel()

	f, server := newFake(t)
	defer server.Close()
	c, err := client.Connect(console(t, map[string]string{"GPUAAS_URL": server.URL, "GPUAAS_TOKEN": goodCredential}))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := alloc.Skus(t.Context(), c); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if f.people.minted != 1 {
		t.Errorf("%d tokens", f.people.minted)
	}
}

// A CI job sends the token of its forge once, and needs the account that it acts as.
func TestTokensOfJobsAreTraded(t *testing.T) {
	t.Parallel()

	f, server := newFake(t)
	defer server.Close()
	env := map[string]string{"GPUAAS_URL": server.URL, "GPUAAS_JOB_TOKEN": goodJobToken, "GPUAAS_SERVICE_ACCOUNT": "01990f41-0000-7000-8000-000000000009"}
	c, err := client.Connect(console(t, env))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := alloc.Skus(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if f.people.minted != 1 {
		t.Errorf("%d tokens", f.people.minted)
	}
	env["GPUAAS_SERVICE_ACCOUNT"] = "ci"
	if _, err := client.Connect(console(t, env)); errs.CodeOf(err) != errs.ValidationError {
		t.Errorf("without the id of an account: %v", err)
	}
}

// Other tokens are sent as they are.
func TestOtherTokensAreNotTraded(t *testing.T) {
	t.Parallel()

	var got string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }))
	defer server.Close()
	c, err := client.Connect(console(t, map[string]string{"GPUAAS_URL": server.URL, "GPUAAS_TOKEN": "gpk_x"}))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.GetMe(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got != "Bearer gpk_x" {
		t.Errorf("sent %q", got)
	}
}
