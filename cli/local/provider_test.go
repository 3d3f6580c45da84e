package local

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gpuaas/gpuaas/cli/output"
	"github.com/gpuaas/gpuaas/internal/clock"
)

// The provider is examined as a sign-in uses it: its document, its name and its clock.
func TestTheProviderIsExamined(t *testing.T) {
	t.Parallel()
	var issuer string
	status, name, ahead := http.StatusOK, "", time.Duration(0)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"issuer": %q}`, issuer+name)
	}))
	t.Cleanup(s.Close)
	issuer = s.URL
	for _, c := range []struct {
		what   string
		change func()
		want   string // status and a part of the message of the last examination
	}{
		{"as it should be", func() {}, "ok apart"},
		{"a clock of two minutes ahead", func() { ahead = 2 * time.Minute }, "fail identity provider"},
		{"another name", func() { name = "/other" }, "fail calls itself"},
		{"an error", func() { status = http.StatusNotFound }, "fail responds 404"},
		{"nothing there", s.Close, "fail not reachable"},
	} {
		c.change()
		all := examineProvider(t.Context(), &output.Console{Clock: clock.Clock{}}, issuer)
		last := all[len(all)-1]
		status, part, _ := strings.Cut(c.want, " ")
		if last.Status != status || !strings.Contains(last.Message, part) {
			t.Errorf("%s: %+v", c.what, last)
		}
	}
}
