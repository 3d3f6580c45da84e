package cli

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gpuaas/gpuaas/dev/stripe"
	"github.com/gpuaas/gpuaas/dev/stripe/control"
	"github.com/gpuaas/gpuaas/dev/up"
	"github.com/gpuaas/gpuaas/internal/profile"
)

// takeMoney runs a payment provider until the script ends, with its keys where up
// stores them, and writes a profile that knows where that is.
func takeMoney(ts *testscript.TestScript) {
	var p *stripe.Server
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.ServeHTTP(w, r) }))
	dir := ts.MkAbs("data")
	ts.Check(os.MkdirAll(filepath.Dir(up.PaymentsAccess(dir)), 0o700))
	access, err := control.KeepAccess(up.PaymentsAccess(dir), server.URL)
	ts.Check(err)
	p, err = stripe.New(stripe.Config{URL: server.URL, SecretKey: access.SecretKey, WebhookSecret: access.WebhookSecret, ControlToken: access.ControlToken})
	ts.Check(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx)
	}()
	ts.Defer(func() {
		cancel()
		<-ended
		server.Close()
	})
	store, err := profile.Find(ts.Getenv)
	ts.Check(err)
	ts.Check(os.MkdirAll(filepath.Dir(store.Path), 0o700))
	ts.Check(store.Edit(func(f *profile.File) error {
		f.Current = "dev"
		f.Profiles = map[string]profile.Profile{"dev": {URL: ts.Getenv("GPUAAS_URL"), DataDir: dir}}
		return nil
	}))
}

// openPage requests a page as the server does, and names it to the script.
func openPage(ts *testscript.TestScript, reference string) {
	access, err := control.ReadAccess(up.PaymentsAccess(ts.MkAbs("data")))
	ts.Check(err)
	form := url.Values{
		"mode": {"payment"}, "success_url": {"http://127.0.0.1:8080/paid"}, "client_reference_id": {reference}, "line_items[0][quantity]": {"1"},
		"line_items[0][price_data][currency]": {"eur"}, "line_items[0][price_data][unit_amount]": {"2500"},
		"line_items[0][price_data][product_data][name]": {"Balance"},
	}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, access.URL+"/v1/checkout/sessions", strings.NewReader(form.Encode()))
	ts.Check(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", "Bearer "+access.SecretKey)
	answer, err := http.DefaultClient.Do(r)
	ts.Check(err)
	ts.Check(answer.Body.Close())
	if answer.StatusCode != http.StatusOK {
		ts.Check(errors.New(answer.Status))
	}
	page, err := access.Page(context.Background(), reference)
	ts.Check(err)
	ts.Setenv("PAGE", page)
}
