package riverui_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/gpuaas/gpuaas/api/rest/riverui"
	"github.com/gpuaas/gpuaas/internal/pgtest"
	"github.com/gpuaas/gpuaas/migrations"
)

type visit struct {
	Name string `json:"name"`
}

func (visit) Kind() string { return "visit" }

func TestJobsAreShown(t *testing.T) {
	t.Parallel()

	pool := pgtest.Clone(t)
	log := slog.New(slog.DiscardHandler)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: migrations.RiverSchema, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	inserted, err := client.Insert(t.Context(), visit{Name: "jane@example.com"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pages, err := riverui.New(t.Context(), client, "/admin/river", log)
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}

	code, text := get("/admin/river/api/jobs?state=available")
	if code != 200 || !strings.Contains(text, `"visit"`) {
		t.Errorf("the job is not listed: %d %s", code, text)
	}
	// An operator must not read the data of tenants in the arguments, neither in the list nor of one job.
	id := strconv.FormatInt(inserted.Job.ID, 10)
	for _, path := range []string{"/admin/river/api/jobs?state=available", "/admin/river/api/jobs/" + id} {
		if code, text := get(path); code != 200 || !strings.Contains(text, id) || strings.Contains(text, "jane") {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}

	code, page := get("/admin/river/")
	if code != 200 || !strings.Contains(page, "River") {
		t.Fatalf("the page is not served: %d %s", code, page)
	}
	// The content security policy allows no inline script, and everything is below the prefix.
	for _, script := range regexp.MustCompile(`<script[^>]*>`).FindAllString(page, -1) {
		if !strings.Contains(script, "src=") && !strings.Contains(script, `type="application/json"`) {
			t.Errorf("the page needs an inline script: %s", script)
		}
	}
	for _, asset := range regexp.MustCompile(`(?:src|href)="(/[^"]+)"`).FindAllStringSubmatch(page, -1) {
		if code, _ := get(asset[1]); code != 200 || !strings.HasPrefix(asset[1], "/admin/river/") {
			t.Errorf("%s: %d", asset[1], code)
		}
	}
}
