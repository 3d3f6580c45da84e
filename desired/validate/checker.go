package validate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"

	"github.com/gpuaas/gpuaas/desired"
	"github.com/gpuaas/gpuaas/desired/validate/definition"
	validatedocument "github.com/gpuaas/gpuaas/desired/validate/document"
	"github.com/gpuaas/gpuaas/desired/validate/explain"
)

// contextLife is the number of objects per CUE context. A context never frees what it has
// evaluated; beyond this number a new context costs less than the memory.
const contextLife = 500

// Checker checks single objects against the definition of their kind. Many goroutines may use it.
// An object that the JSON Schema accepts needs no lock; the others are serialised, because CUE's
// contexts are not safe for concurrent use.
type Checker struct {
	mu          sync.Mutex
	left        int
	ctx         *cue.Context
	definitions map[desired.Kind]cue.Value
	fields      map[desired.Kind]explain.Fields
	schemas     map[desired.Kind]kindSchema

	slow bool // leaves everything to CUE, for comparison
}

// New compiles the JSON Schema. It fails only in a build whose schema is broken. CUE is compiled for the first object
// that the JSON Schema rejects, because that costs more than to validate a hundred objects.
func New() (*Checker, error) {
	schemas, err := compileSchemas()
	return &Checker{schemas: schemas}, err
}

// renew replaces the context of CUE and compiles the definitions in it.
func (c *Checker) renew() (err error) {
	c.ctx, c.definitions, err = definition.Compile()
	c.left = contextLife
	if err == nil && c.fields == nil {
		c.fields = map[desired.Kind]explain.Fields{}
		for kind, d := range c.definitions {
			c.fields[kind] = explain.Describe(d)
		}
	}
	return err
}

// checked is one object that was found in a file, with its faults.
type checked struct {
	object   desired.Object // meaningful only without findings
	kind     desired.Kind
	name     string // Kind/name, empty when it has no name that can be read
	at       validatedocument.Place
	fields   []fieldPlace // of the fields that rules between objects speak about
	findings []desired.Finding
	rejected bool // a child has its findings

	unit  string // in which it was found
	index int    // and where
}

func (o checked) faulty() bool { return o.rejected || len(o.findings) > 0 }

type fieldPlace struct {
	field string
	at    validatedocument.Place
}

// place of a field, or of the object where the author did not write it.
func (o checked) place(field string) validatedocument.Place {
	for _, f := range o.fields {
		if f.field == field {
			return f.at
		}
	}
	return o.at
}

// label returns the name of the object in findings.
func (o checked) label() string {
	if o.name == "" {
		return string(o.kind)
	}
	return validatedocument.Printable(o.name)
}

// crossFields are the fields that rules between objects speak about.
var crossFields = map[desired.Kind][]crossField{
	desired.KindEnvironment:  crossed(),
	desired.KindPolicy:       crossed("spec.key", "spec.scope", "spec.value"),
	desired.KindRole:         crossed("spec.operations"),
	desired.KindSKU:          crossed("spec.isolation"),
	desired.KindOSImage:      crossed("spec.default"),
	desired.KindStorageClass: crossed("spec.default"),
	desired.KindNode:         crossed("spec.sku", "spec.onboarding"),
	desired.KindAllocation:   crossed(),
}

type crossField struct {
	name  string
	names []string // of name
	path  cue.Path
}

func crossed(more ...string) []crossField {
	var list []crossField
	for _, name := range append([]string{"kind", "metadata.name"}, more...) {
		list = append(list, crossField{name, strings.Split(name, "."), cue.ParsePath(name)})
	}
	return list
}

// data checks a YAML or JSON document. Its syntax is built as an expression:
// that path alone leaves nothing behind in the context.
func (c *Checker) data(document ast.Expr, at validatedocument.Place) checked {
	if c.left == 0 {
		if err := c.renew(); err != nil {
			return checked{at: at, findings: []desired.Finding{at.Finding(desired.CodeEvaluatorFailed, "", "", err.Error(), "")}}
		}
	}
	c.left--
	return c.check(c.ctx.BuildExpr(document), at)
}

// check compares one value with the definition that its kind names.
func (c *Checker) check(v cue.Value, at validatedocument.Place) checked {
	o := checked{at: at}
	if v.IncompleteKind() != cue.StructKind {
		o.findings = []desired.Finding{at.Finding(desired.CodeNotAnObject, "", "", "is "+explain.Format(v)+", not an object", "a document with apiVersion, kind, metadata and spec")}
		return o
	}
	kind, finding := kindOf(v, at)
	if finding != nil {
		if o.findings = []desired.Finding{*finding}; v.Validate() != nil {
			o.findings = explain.EvaluationFindings(desired.CodeCUEEvaluation, v.Validate(), at)
		}
		return o
	}
	u := c.definitions[kind].Unify(v)
	refused := u.Validate(cue.Concrete(true))
	if refused != nil {
		if err := v.Validate(); err != nil {
			o.findings = explain.EvaluationFindings(desired.CodeCUEEvaluation, err, at)
			return o
		}
	}
	o.kind = kind
	c.locate(&o, v)
	if refused != nil {
		o.findings = explain.Explain(at, o.label(), v, c.definitions[kind], c.fields[kind], refused)
		return o
	}
	var err error
	if o.object, err = objectOf(kind, u, at); err != nil {
		o.findings = []desired.Finding{at.Finding(desired.CodeEvaluatorFailed, o.label(), "", err.Error(), "")}
	}
	return o
}

// locate notes the name, and where the fields are that other rules speak about.
func (c *Checker) locate(o *checked, v cue.Value) {
	for _, f := range crossFields[o.kind] {
		field := v.LookupPath(f.path)
		if f.name == "metadata.name" {
			if name, _ := field.String(); name != "" {
				o.name = string(o.kind) + "/" + name
			}
		}
		if at, ok := validatedocument.PlaceAt(field.Pos()); ok {
			o.fields = append(o.fields, fieldPlace{f.name, at})
		}
	}
	if o.kind != desired.KindEnvironment {
		return
	}
	sources, err := v.LookupPath(sourcesPath).List()
	for i := 0; err == nil && sources.Next(); i++ {
		if at, ok := validatedocument.PlaceAt(sources.Value().LookupPath(namePath).Pos()); ok {
			o.fields = append(o.fields, fieldPlace{sourceName(i), at})
		}
	}
}

var sourcesPath, namePath = cue.ParsePath("spec.sources"), cue.ParsePath("name")

// sourceName is the field in which the i-th source of an Environment is named.
func sourceName(i int) string { return fmt.Sprintf("spec.sources.%d.name", i) }

// kindOf reads the kind, which selects the definition. Selecting it in Go preserves exact errors:
// CUE reports none for a disjunction of all kinds.
func kindOf(v cue.Value, at validatedocument.Place) (desired.Kind, *desired.Finding) {
	field := v.LookupPath(cue.ParsePath("kind"))
	text, err := field.String()
	if err != nil {
		f := at.Finding(desired.CodeMissingField, "", "kind", "is missing", explain.KindNames())
		if field.Exists() {
			f = validatedocument.PlaceOf(field, at).Finding(desired.CodeWrongType, "", "kind", "is "+explain.Format(field), explain.KindNames())
		}
		return "", &f
	}
	for _, kind := range desired.Kinds() {
		if text == string(kind) {
			return kind, nil
		}
	}
	f := validatedocument.PlaceOf(field, at).Finding(desired.CodeUnknownKind, "", "kind", fmt.Sprintf("unknown kind %q", text), explain.KindNames())
	return "", &f
}

// objectOf reads the unified value, so that defaults are filled in.
func objectOf(kind desired.Kind, u cue.Value, at validatedocument.Place) (desired.Object, error) {
	o := desired.Object{Kind: kind, Source: desired.Source{Owner: desired.OwnerGit, Path: at.Path, Line: at.Line, Column: at.Column}}
	var metadata struct {
		Name        string            `json:"name"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	}
	if err := u.LookupPath(cue.ParsePath("metadata")).Decode(&metadata); err != nil {
		return o, fmt.Errorf("reading metadata: %w", err)
	}
	o.Name, o.Labels, o.Annotations = metadata.Name, metadata.Labels, metadata.Annotations

	raw, err := u.LookupPath(cue.ParsePath("spec")).MarshalJSON()
	if err != nil {
		return o, fmt.Errorf("reading spec: %w", err)
	}
	if o.Spec, err = canonical(raw); err != nil {
		return o, fmt.Errorf("normalising spec: %w", err)
	}
	o.SpecHash = desired.Hash(o.Spec)
	return o, nil
}

// canonical sorts the keys, so that equal specs are equal bytes.
func canonical(raw []byte) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return encode(v)
}
