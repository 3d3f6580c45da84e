package validate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/ast"

	"github.com/gpuaas/gpuaas/desired"
)

// contextLife is how many objects one evaluator context sees. Contexts keep
// what they evaluate; beyond this the memory costs more than a new one.
const contextLife = 500

// Checker checks single objects against the definition of their kind. It may be
// used by many goroutines; they take turns, because CUE's contexts are not safe
// to share.
type Checker struct {
	mu          sync.Mutex
	left        int
	ctx         *cue.Context
	definitions map[desired.Kind]cue.Value
	known       map[desired.Kind]known
}

// New compiles the schema. It fails only in a build whose schema is broken.
func New() (*Checker, error) {
	c := &Checker{known: map[desired.Kind]known{}}
	if err := c.renew(); err != nil {
		return nil, err
	}
	for kind, d := range c.definitions {
		c.known[kind] = describe(d)
	}
	return c, nil
}

func (c *Checker) renew() (err error) {
	c.ctx, c.definitions, err = compile()
	c.left = contextLife
	return err
}

// checked is one object that was found in a file, with its faults.
type checked struct {
	object   desired.Object // meaningful only without findings
	kind     desired.Kind
	name     string // Kind/name, empty when it has no name that can be read
	at       place
	fields   map[string]place // of the fields that rules between objects speak about
	findings []desired.Finding
}

// label is how findings call the object.
func (o checked) label() string {
	if o.name == "" {
		return string(o.kind)
	}
	return printable(o.name)
}

// crossFields are the fields that rules between objects speak about.
var crossFields = []string{"kind", "metadata.name", "spec.sku", "spec.key", "spec.scope", "spec.value", "spec.default"}

// data checks a YAML or JSON document. Its syntax is built as an expression:
// that path alone leaves nothing behind in the context.
func (c *Checker) data(document ast.Expr, at place) checked {
	if c.left == 0 {
		if err := c.renew(); err != nil {
			return checked{at: at, findings: []desired.Finding{at.finding(desired.CodeEvaluatorFailed, "", "", err.Error(), "")}}
		}
	}
	c.left--
	return c.check(c.ctx.BuildExpr(document), at)
}

// check compares one value with the definition that its kind names.
func (c *Checker) check(v cue.Value, at place) checked {
	o := checked{at: at, fields: map[string]place{}}
	if v.IncompleteKind() != cue.StructKind {
		o.findings = []desired.Finding{at.finding(desired.CodeNotAnObject, "", "", "is "+shown(v)+", not an object", "a document with apiVersion, kind, metadata and spec")}
		return o
	}
	if err := v.Validate(); err != nil {
		o.findings = evaluationFindings(desired.CodeCUEEvaluation, err, at)
		return o
	}
	kind, finding := kindOf(v, at)
	if finding != nil {
		o.findings = []desired.Finding{*finding}
		return o
	}
	for _, f := range crossFields {
		o.fields[f] = placeOf(v.LookupPath(cue.ParsePath(f)), at)
	}
	o.kind = kind
	if name, _ := v.LookupPath(cue.ParsePath("metadata.name")).String(); name != "" {
		o.name = string(kind) + "/" + name
	}
	e := explainer{at: at, object: o.label(), value: v, definition: c.definitions[kind], known: c.known[kind]}

	e.unknownFields("", v)
	u := c.definitions[kind].Unify(v)
	if err := u.Validate(cue.Concrete(true)); err != nil {
		e.explain(err)
	}
	if o.findings = e.findings; len(o.findings) > 0 {
		return o
	}
	var err error
	if o.object, err = objectOf(kind, u, at); err != nil {
		o.findings = []desired.Finding{at.finding(desired.CodeEvaluatorFailed, e.object, "", err.Error(), "")}
	}
	return o
}

// kindOf reads the kind, which chooses the definition. Choosing it by hand keeps
// errors exact: against a disjunction of all kinds they would vanish.
func kindOf(v cue.Value, at place) (desired.Kind, *desired.Finding) {
	field := v.LookupPath(cue.ParsePath("kind"))
	text, err := field.String()
	if err != nil {
		f := at.finding(desired.CodeMissingField, "", "kind", "is missing", kindNames())
		if field.Exists() {
			f = placeOf(field, at).finding(desired.CodeWrongType, "", "kind", "is "+shown(field), kindNames())
		}
		return "", &f
	}
	for _, kind := range desired.Kinds() {
		if text == string(kind) {
			return kind, nil
		}
	}
	f := placeOf(field, at).finding(desired.CodeUnknownKind, "", "kind", fmt.Sprintf("unknown kind %q", text), kindNames())
	return "", &f
}

// objectOf reads the unified value, so that defaults are filled in.
func objectOf(kind desired.Kind, u cue.Value, at place) (desired.Object, error) {
	o := desired.Object{Kind: kind, Source: desired.Source{Owner: desired.OwnerGit, Path: at.path, Line: at.line, Column: at.column}}
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
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}
