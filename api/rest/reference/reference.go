// Package reference shows the contract and the catalogue of errors to people. The
// pages are made once from the same document that the server is checked against,
// so they cannot differ.
package reference

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpuaas/gpuaas/api/asyncapi"
	"github.com/gpuaas/gpuaas/internal/errs"
	"github.com/gpuaas/gpuaas/web"
)

// Path of the catalogue of errors; a problem's type points to it.
const Path = "/docs/reference/errors"

// Pages are ready to be sent.
type Pages struct {
	Contract []byte // OpenAPI as JSON
	Messages []byte // AsyncAPI as JSON
	API      []byte // HTML
	Events   []byte // HTML
	Errors   []byte // HTML
}

// New renders the pages of a contract; status returns the HTTP status of an error code.
func New(doc *openapi3.T, status func(errs.Code) int) (p Pages, err error) {
	if p.Contract, err = doc.MarshalJSON(); err != nil {
		return Pages{}, fmt.Errorf("writing the contract as JSON: %w", err)
	}
	if p.Messages, err = asyncapi.JSON(); err != nil {
		return Pages{}, err
	}
	events, err := asyncapi.Describe()
	if err != nil {
		return Pages{}, err
	}
	if p.Events, err = render("events", events); err != nil {
		return Pages{}, err
	}
	if p.API, err = render("reference", describe(doc)); err != nil {
		return Pages{}, err
	}
	example, err := pretty(doc.Components.Responses["BadRequest"].Value.Content["application/json"].Example)
	if err != nil {
		return Pages{}, err
	}
	p.Errors, err = render("errors", map[string]any{"Groups": catalogue(status), "Example": example})
	return p, err
}

func render(page string, data any) ([]byte, error) {
	t, err := web.Page(page, template.FuncMap{"prose": prose})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, data); err != nil {
		return nil, fmt.Errorf("rendering page %s: %w", page, err)
	}
	return out.Bytes(), nil
}

type group struct {
	Status int
	Title  string
	Codes  []entry
}

type entry struct {
	Code   errs.Code
	Advice string
}

// catalogue groups the codes by status, sorted as in the catalogue.
func catalogue(status func(errs.Code) int) []group {
	var groups []group
	for _, code := range errs.All() {
		n := status(code)
		if len(groups) == 0 || groups[len(groups)-1].Status != n {
			groups = append(groups, group{Status: n, Title: http.StatusText(n)})
		}
		last := &groups[len(groups)-1]
		last.Codes = append(last.Codes, entry{code, Advice(code)})
	}
	return groups
}

// prose shows the two marks that the contract's texts use, `code` and **strong**,
// and escapes everything else.
func prose(text string) template.HTML {
	text = template.HTMLEscapeString(text)
	text = between(text, "`", "code")
	return template.HTML(between(text, "**", "strong")) //nolint:gosec // escaped above; only our two tags are added
}

func between(text, mark, tag string) string {
	parts := strings.Split(text, mark)
	if len(parts)%2 == 0 {
		return text // an odd mark is a mark
	}
	var out strings.Builder
	for i, part := range parts {
		if i%2 == 1 {
			part = "<" + tag + ">" + part + "</" + tag + ">"
		}
		out.WriteString(part)
	}
	return out.String()
}

func pretty(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	if text, ok := v.(string); ok {
		return text, nil
	}
	out, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing an example: %w", err)
	}
	return string(out), nil
}
