package forge_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	devforge "github.com/gpuaas/gpuaas/dev/forge"
	"github.com/gpuaas/gpuaas/gitops/forge"
)

// TestHooksOfARealPush: what is pushed over HTTP with the token arrives as hooks
// that verify, and what is merged too.
func TestHooksOfARealPush(t *testing.T) {
	t.Parallel()
	eachForge(t, func(t *testing.T, kind forge.Kind) {
		var mu sync.Mutex
		var got []forge.Hook
		receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			hook, err := forge.Verify(kind, secret, r.Header, body)
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				t.Errorf("%s: %v", body, err)
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, hook)
		}))
		t.Cleanup(receiver.Close)
		w := setup(t, kind, func(c *devforge.Config) { c.HookURL, c.HookSecret = receiver.URL, string(secret) })
		w.git("remote", "set-url", "origin", strings.Replace(w.server.URL, "://", "://x-access-token:"+token+"@", 1)+"/"+project(kind)+".git")

		number, first := w.pull("change")
		second := w.push("change", "more.yaml", "more")
		merged, err := w.double.Merge(t.Context(), number)
		if err != nil {
			t.Fatal(err)
		}
		w.git("push", "--quiet", "origin", ":change")
		w.git("fetch", "--quiet", "origin", "main")
		if at := w.git("rev-parse", "FETCH_HEAD"); at != merged {
			t.Errorf("main is at %s, want %s", at, merged)
		}

		mu.Lock()
		defer mu.Unlock()
		want := []forge.Hook{
			{Kind: forge.HookPush, Branch: "change", Commit: first},
			{Kind: forge.HookPull, Branch: "main", Commit: first, Pull: number},
			{Kind: forge.HookPush, Branch: "change", Commit: second},
			{Kind: forge.HookPull, Branch: "main", Commit: second, Pull: number},
			{Kind: forge.HookPush, Branch: "main", Commit: merged},
			{Kind: forge.HookPush, Branch: "change"},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("hooks (-want +got):\n%s", diff)
		}
		for _, d := range w.double.Deliveries() {
			if d.Status != http.StatusOK {
				t.Errorf("%s was answered %d", d.Event, d.Status)
			}
		}
	})
}
