package reference

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/gpuaas/gpuaas/api/openapi"
)

// The contents of a contract's page, from top to bottom.
type (
	contract struct {
		Title, Version string
		Intro          []string
		Tags           []tag
	}
	tag struct {
		Name, Description string
		Operations        []operation
	}
	operation struct {
		ID, Method, Path, Summary string
		Description               []string
		Public                    bool
		Parameters                []parameter
		Body                      *body
		Answers                   []answer
		Codes                     []string
		Fields                    []field
		Example                   string
	}
	parameter struct {
		Name, Where, Type, Meaning string
		Required                   bool
	}
	body struct {
		Fields  []field
		Example string
	}
	field struct {
		Name, Type, Meaning string
		Mark                string // of a field that must be there
	}
	answer struct{ Status, Meaning string }
)

func describe(doc *openapi3.T) contract {
	c := contract{Title: doc.Info.Title, Version: doc.OpenAPI, Intro: paragraphs(doc.Info.Description)}
	all := openapi.Operations(doc)
	for _, t := range doc.Tags {
		shown := tag{Name: t.Name, Description: t.Description}
		for _, o := range all {
			if slices.Contains(o.Tags, t.Name) {
				shown.Operations = append(shown.Operations, describeOperation(o))
			}
		}
		// By path, so that related operations are adjacent.
		slices.SortStableFunc(shown.Operations, func(a, b operation) int { return strings.Compare(a.Path, b.Path) })
		c.Tags = append(c.Tags, shown)
	}
	return c
}

func describeOperation(o openapi.Operation) operation {
	shown := operation{
		ID: o.OperationID, Method: o.Method, Path: o.Path, Summary: o.Summary, Description: paragraphs(o.Description),
		Public: o.Security != nil && len(*o.Security) == 0,
	}
	for _, ref := range o.Parameters {
		p := ref.Value
		shown.Parameters = append(shown.Parameters, parameter{p.Name, p.In, typeOf(p.Schema), strings.TrimSpace(p.Description + " " + bounds(p.Schema.Value)), p.Required})
	}
	if o.RequestBody != nil {
		m := o.RequestBody.Value.Content["application/json"]
		for _, bytes := range []string{"*/*", "application/octet-stream"} { // signed by a foreign system, or a file
			if m == nil {
				m = o.RequestBody.Value.Content[bytes]
			}
		}
		shown.Body = &body{Fields: fieldsOf("", "required", m.Schema, nil), Example: example(m)}
	}
	responses := o.Responses.Map()
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		r := responses[status].Value
		shown.Answers = append(shown.Answers, answer{status, *r.Description})
		if strings.HasPrefix(status, "2") {
			for _, m := range r.Content {
				shown.Fields, shown.Example = fieldsOf("", "always", m.Schema, nil), example(m)
			}
		}
	}
	if codes, ok := o.Extensions["x-codes"].([]any); ok {
		for _, c := range codes {
			if code, ok := c.(string); ok {
				shown.Codes = append(shown.Codes, code)
			}
		}
	}
	return shown
}

// fieldsOf lists the fields of a schema with their paths, depth first. within
// ends the recursion at a schema that contains itself.
func fieldsOf(prefix, mark string, ref *openapi3.SchemaRef, within []*openapi3.Schema) []field {
	s := ref.Value
	if slices.Contains(within, s) {
		return nil
	}
	within = append(within, s)
	if s.Type.Is("array") {
		return fieldsOf(prefix+"[]", mark, s.Items, within)
	}
	var all []field
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		path := name
		if prefix != "" {
			path = prefix + "." + name
		}
		f := field{Name: path, Type: typeOf(p), Meaning: meaning(p)}
		if slices.Contains(s.Required, name) {
			f.Mark = mark
		}
		all = append(all, f)
		all = append(all, fieldsOf(path, mark, p, within)...)
	}
	return all
}

func meaning(ref *openapi3.SchemaRef) string {
	text := ref.Value.Description
	if n := len(ref.Value.Enum); n > 0 && n <= 12 {
		words := make([]string, n)
		for i, v := range ref.Value.Enum {
			words[i], _ = v.(string)
		}
		text = strings.TrimSpace(text + " One of `" + strings.Join(words, "`, `") + "`.")
	}
	return strings.TrimSpace(text + " " + bounds(ref.Value))
}

func bounds(s *openapi3.Schema) (text string) {
	if s.Min != nil && s.Max != nil {
		text = fmt.Sprintf("From %.0f to %.0f.", *s.Min, *s.Max)
	}
	if s.MaxLength != nil {
		text = fmt.Sprintf("At most %d characters.", *s.MaxLength)
	}
	if s.Default != nil {
		text += fmt.Sprintf(" Usually %v.", s.Default)
	}
	return text
}

func typeOf(ref *openapi3.SchemaRef) string {
	s := ref.Value
	if s.Type == nil {
		return "any"
	}
	text := strings.Join(s.Type.Slice(), " or ")
	if s.Type.Is("array") {
		return "list of " + typeOf(s.Items)
	}
	if s.Format != "" && s.Format != "int64" {
		text = s.Format
	}
	return text
}

func example(m *openapi3.MediaType) string {
	text, err := pretty(m.Example)
	if err != nil {
		return "" // the contract was read from YAML: every example has a JSON form
	}
	return text
}

func paragraphs(text string) []string {
	var all []string
	for p := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		all = append(all, strings.ReplaceAll(p, "\n", " "))
	}
	return all
}
