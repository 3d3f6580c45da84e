package forge_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/dev/forge"
	gitopsforge "github.com/gpuaas/gpuaas/gitops/forge"
	"github.com/gpuaas/gpuaas/internal/errs"
)

// TestRefusalsAreSorted checks that temporary errors are distinguished from errors that need an
// operator.
func TestRefusalsAreSorted(t *testing.T) {
	t.Parallel()
	reset := strconv.FormatInt(time.Now().Add(30*time.Minute).Unix(), 10)
	for name, c := range map[string]struct {
		fault forge.Fault
		want  errs.Code
		pause time.Duration // at least, and at most two minutes more; 0: none
	}{
		"401":                     {forge.Fault{Status: 401, Body: `{"message":"Bad credentials"}`}, errs.ProviderFailed, 0},
		"403":                     {forge.Fault{Status: 403, Body: `{"message":"Resource not accessible"}`}, errs.ProviderFailed, 0},
		"404":                     {forge.Fault{Status: 404, Body: `{"message":"Not Found"}`}, errs.NotFound, 0},
		"422":                     {forge.Fault{Status: 422, Body: `{"message":{"base":["is odd"]}}`}, errs.ProviderFailed, 0},
		"429, seconds":            {forge.Fault{Status: 429, Header: map[string]string{"Retry-After": "120"}}, errs.RateLimited, 2 * time.Minute},
		"429, no header":          {forge.Fault{Status: 429, Body: "slow down"}, errs.RateLimited, time.Minute},
		"429, nonsense":           {forge.Fault{Status: 429, Header: map[string]string{"Retry-After": "soon"}}, errs.RateLimited, time.Minute},
		"429, for years":          {forge.Fault{Status: 429, Header: map[string]string{"Retry-After": "99999999"}}, errs.RateLimited, time.Hour},
		"429, in the past":        {forge.Fault{Status: 429, Header: map[string]string{"Retry-After": "-5"}}, errs.RateLimited, time.Second},
		"403, secondary limit":    {forge.Fault{Status: 403, Body: `{"message":"You have exceeded a secondary rate limit"}`}, errs.RateLimited, time.Minute},
		"403, budget spent":       {forge.Fault{Status: 403, Header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}}, errs.RateLimited, 29 * time.Minute},
		"429 of GitLab":           {forge.Fault{Status: 429, Header: map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": reset}}, errs.RateLimited, 29 * time.Minute},
		"500":                     {forge.Fault{Status: 500, Body: "<html><h1>500</h1>"}, errs.Unavailable, 0},
		"503, with an hour":       {forge.Fault{Status: 503, Header: map[string]string{"Retry-After": "3600"}}, errs.Unavailable, 0},
		"200, and no list":        {forge.Fault{Status: 200, Body: `{"message":"hello"}`}, errs.ProviderFailed, 0},
		"200, and no JSON":        {forge.Fault{Status: 200, Body: "<html>sign in</html>"}, errs.ProviderFailed, 0},
		"301":                     {forge.Fault{Status: 301, Header: map[string]string{"Location": "/elsewhere"}}, errs.ProviderFailed, 0},
		"200, and no end to it":   {forge.Fault{Status: 200, Body: strings.Repeat(" ", 17<<20)}, errs.ProviderFailed, 0},
		"a page of empty objects": {forge.Fault{Status: 200, Body: `[{},{"number":1},null]`}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachForge(t, func(t *testing.T, kind gitopsforge.Kind) {
				w := alone(t, kind, nil)
				c.fault.Times = 1
				w.double.InjectFault(c.fault)
				pulls, err := w.forge.Open(t.Context(), "main")
				if errs.CodeOf(err) != c.want || len(pulls) != 0 {
					t.Fatalf("%v and %d pulls, want %s", err, len(pulls), c.want)
				}
				if got := gitopsforge.Pause(err); got < c.pause || got > c.pause+2*time.Minute || c.pause == 0 && got != 0 {
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
	eachForge(t, func(t *testing.T, kind gitopsforge.Kind) {
		w := setup(t, kind, nil)
		_, err := w.client(kind, "another").Open(t.Context(), "main")
		if errs.CodeOf(err) != errs.ProviderFailed || !strings.Contains(err.Error(), "token") {
			t.Error(err)
		}
	})
}

// TestTokenGoesToOneHost checks that a redirect is returned as a response and never followed.
func TestTokenGoesToOneHost(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(elsewhere.Close)
	eachForge(t, func(t *testing.T, kind gitopsforge.Kind) {
		w := setup(t, kind, nil)
		pull, head := w.pull("change")
		for _, status := range []int{301, 302, 303, 307, 308} {
			w.double.InjectFault(forge.Fault{Status: status, Header: map[string]string{"Location": elsewhere.URL + "/api"}, Times: 3})
			_, opening := w.forge.Open(t.Context(), "main")
			_, commenting := w.forge.Comment(t.Context(), comment(pull, "", "plan"))
			for _, err := range []error{opening, commenting, w.forge.Status(t.Context(), head, gitopsforge.Status{Context: gitopsforge.ContextPlan, State: gitopsforge.Success})} {
				if errs.CodeOf(err) != errs.ProviderFailed {
					t.Errorf("%d: %v", status, err)
				}
			}
		}
		// The forge names the next page. The client does not follow the name.
		w.double.InjectFault(forge.Fault{Status: 200, Body: "[]", Header: map[string]string{"Link": "<" + elsewhere.URL + `>; rel="next"`}, Times: 1})
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
	f, err := gitopsforge.New(gitopsforge.Config{
		Kind: gitopsforge.GitHub, URL: silent.URL, Project: "acme/fleet", Token: []byte(token), AllowPrivate: true,
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
	eachForge(t, func(t *testing.T, kind gitopsforge.Kind) {
		w := setup(t, kind, nil)
		w.server.Close()
		if _, err := w.forge.Open(t.Context(), "main"); errs.CodeOf(err) != errs.Unavailable {
			t.Error(err)
		}
	})
}
