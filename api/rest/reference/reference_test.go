package reference_test

import (
	"encoding/json"
	"html/template"
	"strings"
	"testing"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/api/openapi"
	"github.com/gpuaas/gpuaas/api/rest/reference"
	"github.com/gpuaas/gpuaas/internal/errs"
)

func pages(t *testing.T) reference.Pages {
	t.Helper()
	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	p, err := reference.New(doc, func(errs.Code) int { return 400 })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEveryOperationIsShown(t *testing.T) {
	t.Parallel()

	doc, err := openapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	page := string(pages(t).API)
	for _, op := range openapi.Operations(doc) {
		if !strings.Contains(page, `<article id="`+op.OperationID+`">`) || !strings.Contains(page, op.Path) {
			t.Errorf("%s is not on the page", op.OperationID)
		}
	}
}

func TestEveryEventIsShown(t *testing.T) {
	t.Parallel()
	d, err := asyncapi.Describe()
	if err != nil {
		t.Fatal(err)
	}
	page := string(pages(t).Events)
	if len(d.Events) < 40 || len(d.Envelope) != 6 {
		t.Fatalf("%d events, %d fields of the envelope", len(d.Events), len(d.Envelope))
	}
	for _, e := range d.Events {
		if len(e.Fields) == 0 || !strings.Contains(page, `<article id="`+template.HTMLEscapeString(e.Subject)+`">`) {
			t.Errorf("%s is not on the page", e.Subject)
		}
	}
}

// A problem's type leads to its code here.
func TestEveryCodeHasAdvice(t *testing.T) {
	t.Parallel()

	page := string(pages(t).Errors)
	for _, code := range errs.All() {
		if reference.Advice(code) == "" {
			t.Errorf("%s: what is one to do?", code)
		}
		if !strings.Contains(page, `id="`+string(code)+`"`) {
			t.Errorf("%s is not on the page", code)
		}
	}
}

// The pages are served under a policy that forbids both.
func TestPagesCarryNoScript(t *testing.T) {
	t.Parallel()

	p := pages(t)
	for _, page := range [][]byte{p.API, p.Events, p.Errors} {
		if text := string(page); strings.Contains(text, "<script") || strings.Contains(text, " style=") || strings.Contains(text, "http://") {
			t.Error("a page has a script, an inline style or something from elsewhere")
		}
	}
	if !json.Valid(p.Contract) || !json.Valid(p.Messages) {
		t.Error("a contract is not JSON")
	}
}
