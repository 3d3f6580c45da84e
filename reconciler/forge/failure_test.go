package forge_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/internal/forgedouble"
	"github.com/gpuaas/gpuaas/reconciler/forge"
)

// TestRefusalsAreSorted: what passes by itself is told from what needs a person.
func TestRefusalsAreSorted(t *testing.T) {
	t.Parallel()
	reset := strconv.FormatInt(time.Now().Add(30*time.Minute).Unix(), 10)
	for name, c := range map[string]struct {
		fault forgedouble.Fault
		want  errs.Code
		pause time.Duration // at least, and at most two minutes more; 0: none
	}{
		"401":                    {forgedouble.Fault{Status: 401, Body: `{"message":"Bad credentials"}`}, errs.ProviderFailed, 0},
		"403":                    {forgedouble.Fault{Status: 403, Body: `{"message":"Resource not accessible"}`}, errs.ProviderFailed, 0},
		"404":                    {forgedouble.Fault{Status: 404, Body: `{"message":"Not Found"}`}, errs.NotFound, 0},
		"422":                    {forgedouble.Fault{Status: 422, Body: `{"message":{"base":["is odd"]}}`}, errs.ProviderFailed, 0},
		"429, seconds":           {forgedouble.Fault{Status: 429, Header: map[string]string{"Retry-After": "120"}}, errs.RateLimited, 2 * time.Minute},
		"429, nothing said":      {forgedouble.Fault{Status: 429, Body: "slow down"}, errs.RateLimited, time.Minute},
		"429, nonsense":          {forgedouble.Fault{Status: 429, Header: map[string]string{"Retry-After": "soon"}}, errs.RateLimited, time.Minute},
		"429, for years":         {forgedouble.Fault{Status: 429, Header: map[string]string{"Retry-After": "99999999"}}, errs.RateLimited, time.Hour},
		"429, in the past":       {forgedouble.Fault{Status: 429, Header: map[string]string{"Retry-After": "-5"}}, errs.RateLimited, time.Second},
		"403, secondary limit":   {forgedouble.Fault{Status: 403, Body: `{"message":"You have exceeded a secondary rate limit"}`}, errs.RateLimited, time.Minute},
		"403, budget spent":      {forgedouble.Fault{Status: 403, Header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}}, errs.RateLimited, 29 * time.Minute},
		"429 of GitLab":          {forgedouble.Fault{Status: 429, Header: map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": reset}}, errs.RateLimited, 29 * time.Minute},
		"500":                    {forgedouble.Fault{Status: 500, Body: "<html><h1>500</h1>"}, errs.Unavailable, 0},
		"503, with an hour":      {forgedouble.Fault{Status: 503, Header: map[string]string{"Retry-After": "3600"}}, errs.Unavailable, 0},
		"200, and no list":       {forgedouble.Fault{Status: 200, Body: `{"message":"hello"}`}, errs.ProviderFailed, 0},
		"200, and no JSON":       {forgedouble.Fault{Status: 200, Body: "<html>sign in</html>"}, errs.ProviderFailed, 0},
		"301":                    {forgedouble.Fault{Status: 301, Header: map[string]string{"Location": "/elsewhere"}}, errs.ProviderFailed, 0},
		"200, and no end to it":  {forgedouble.Fault{Status: 200, Body: strings.Repeat(" ", 17<<20)}, errs.ProviderFailed, 0},
		"a page of empty things": {forgedouble.Fault{Status: 200, Body: `[{},{"number":1},null]`}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachForge(t, func(t *testing.T, kind forge.Kind) {
				w := alone(t, kind, nil)
				c.fault.Times = 1
				w.double.Refuse(c.fault)
				pulls, err := w.forge.Open(t.Context(), "main")
				if errs.CodeOf(err) != c.want || len(pulls) != 0 {
					t.Fatalf("%v and %d pulls, want %s", err, len(pulls), c.want)
				}
				if got := forge.Pause(err); got < c.pause || got > c.pause+2*time.Minute || c.pause == 0 && got != 0 {
					t.Errorf("pause of %v, want %v", got, c.pause)
				}
				if err != nil && strings.Contains(err.Error(), token) {
					t.Errorf("the token is in %v", err)
				}
			})
		})
	}
}

func TestWrongTokenIsSaid(t *testing.T) {
	t.Parallel()
	eachForge(t, func(t *testing.T, kind forge.Kind) {
		w := setup(t, kind, nil)
		_, err := w.speak(kind, "another").Open(t.Context(), "main")
		if errs.CodeOf(err) != errs.ProviderFailed || !strings.Contains(err.Error(), "token") {
			t.Error(err)
		}
	})
}

// TestTokenGoesToOneHost: a redirect is an answer, and nobody's next request.
func TestTokenGoesToOneHost(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(elsewhere.Close)
	eachForge(t, func(t *testing.T, kind forge.Kind) {
		w := setup(t, kind, nil)
		pull, head := w.pull("change")
		for _, status := range []int{301, 302, 303, 307, 308} {
			w.double.Refuse(forgedouble.Fault{Status: status, Header: map[string]string{"Location": elsewhere.URL + "/api"}, Times: 3})
			_, opening := w.forge.Open(t.Context(), "main")
			_, commenting := w.forge.Comment(t.Context(), comment(pull, "", "plan"))
			for _, err := range []error{opening, commenting, w.forge.Status(t.Context(), head, forge.Status{Context: forge.ContextPlan, State: forge.Success})} {
				if errs.CodeOf(err) != errs.ProviderFailed {
					t.Errorf("%d: %v", status, err)
				}
			}
		}
		// Where the next page is, the forge may say; nobody goes there.
		w.double.Refuse(forgedouble.Fault{Status: 200, Body: "[]", Header: map[string]string{"Link": "<" + elsewhere.URL + `>; rel="next"`}, Times: 1})
		if _, err := w.forge.Open(t.Context(), "main"); err != nil {
			t.Error(err)
		}
		if n := asked.Load(); n != 0 {
			t.Errorf("%d requests went elsewhere", n)
		}
	})
}

func TestSilentForgeIsLeft(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-done
	}))
	t.Cleanup(silent.Close)
	t.Cleanup(func() { close(done) })
	f, err := forge.New(forge.Config{
		Kind: forge.GitHub, URL: silent.URL, Project: "acme/fleet", Token: []byte(token), AllowPrivate: true,
		Client: &http.Client{Timeout: 50 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Open(t.Context(), "main"); errs.CodeOf(err) != errs.Unavailable {
		t.Error(err)
	}
}

func TestForgeThatIsAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	eachForge(t, func(t *testing.T, kind forge.Kind) {
		w := setup(t, kind, nil)
		w.server.Close()
		if _, err := w.forge.Open(t.Context(), "main"); errs.CodeOf(err) != errs.Unavailable {
			t.Error(err)
		}
	})
}
