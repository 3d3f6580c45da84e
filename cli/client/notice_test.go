package client

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gpuaas/gpuaas/cli/output"
)

// A notice is written once, on one line, and one that is not encoded is left out.
func TestNoticeIsWrittenOnce(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"":                                   "",
		"Maintenance%20on%20Friday%20100%25": "notice: Maintenance on Friday 100%\n",
		"a%1b%5B31m%0Ab":                     "notice: a [31m b\n",
		"%zz":                                "",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if header != "" {
				w.Header().Set("X-Platform-Notice", header)
			}
		}))
		var out bytes.Buffer
		doer := &http.Client{Transport: &noticing{transport: http.DefaultTransport, console: &output.Console{Err: &out}}}
		for range 3 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := doer.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		}
		s.Close()
		if out.String() != want {
			t.Errorf("%q: %q", header, out.String())
		}
	}
}
