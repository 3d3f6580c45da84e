// Package breaking compares two versions of a contract and lists the changes that break clients of
// the older one. It compares the documents only; other tests compare the server with its contract.
// A request may not become narrower, and a reply may not become wider or lose fields.
package breaking

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Annotation is the extension that lets a break pass, with its reason: on an
// operation or a schema of the newer contract, or at its root as a map by
// operationId, for operations that are gone.
const Annotation = "x-breaking"

// Level is the severity of a change.
type Level string

// A break fails the build, a warning is only printed, and an excused break has an annotation.
const (
	Break   Level = "break"
	Excused Level = "excused"
	Warning Level = "warning"
)

// Change is one difference that a client may notice.
type Change struct {
	Level  Level
	Place  string // the operation, or the named schema and the way into it
	What   string
	Reason string // of the annotation
	Used   []string
}

func (c Change) String() string {
	text := fmt.Sprintf("%s: %s: %s", c.Level, c.Place, c.What)
	if c.Reason != "" {
		text += fmt.Sprintf(" (%s: %s)", Annotation, c.Reason)
	}
	switch n := len(c.Used); {
	case n > few:
		text += fmt.Sprintf(" [%s and %d more]", strings.Join(c.Used[:few], ", "), n-few)
	case n > 0:
		text += " [" + strings.Join(c.Used, ", ") + "]"
	}
	return text
}

// few is the number of operations that a report lists. Some examples locate the change; a full list
// would fill the screen.
const few = 3

// Between compares two contracts whose references are resolved. The changes are in the order of
// their places. A schema that several operations use is reported once.
func Between(before, after *openapi3.T) []Change {
	c := &comparison{before: before, after: after, annotated: map[string]string{}, used: map[string]bool{}}
	for _, path := range before.Paths.InMatchingOrder() {
		then, now := before.Paths.Value(path), after.Paths.Value(path)
		for _, method := range slices.Sorted(maps.Keys(then.Operations())) {
			c.operation(method, path, then, now)
		}
	}
	c.unused()
	for _, change := range c.changes {
		slices.Sort(change.Used)
	}
	slices.SortStableFunc(c.changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(a.What, b.What), cmp.Compare(a.Level, b.Level))
	})
	return c.changes
}

// Broken reports whether any of the changes is a break without an annotation.
func Broken(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Level == Break })
}

type comparison struct {
	before, after *openapi3.T
	changes       []Change

	operationID string
	visited     map[visit]bool // within one operation
	annotated   map[string]string
	used        map[string]bool
}

// at is the place of a comparison: its name for users, and the annotation that covers it with the
// place of the annotation.
type at struct{ place, reason, annotation string }

func (c *comparison) note(l Level, where at, what string, args ...any) {
	if l == Break && where.reason != "" {
		l = Excused
		c.used[where.annotation] = true
	} else {
		where.reason = ""
	}
	next := Change{Level: l, Place: where.place, What: fmt.Sprintf(what, args...), Reason: where.reason}
	if where.place != c.operationID && !strings.HasPrefix(where.place, c.operationID+".") {
		next.Used = []string{c.operationID}
	}
	for i, have := range c.changes {
		if have.Level == next.Level && have.Place == next.Place && have.What == next.What && have.Reason == next.Reason {
			c.changes[i].Used = append(have.Used, next.Used...)
			return
		}
	}
	c.changes = append(c.changes, next)
}

// under moves into a part that may carry an annotation of its own.
func (c *comparison) under(where at, extensions map[string]any) at {
	reason, ok := extensions[Annotation].(string)
	if !ok || reason == "" {
		return where
	}
	c.annotated[where.place] = reason
	return at{where.place, reason, where.place}
}

func (c *comparison) operation(method, path string, then, now *openapi3.PathItem) {
	old := then.GetOperation(method)
	c.operationID, c.visited = old.OperationID, map[visit]bool{}
	where := at{place: old.OperationID}
	if now == nil || now.GetOperation(method) == nil {
		gone, _ := c.after.Extensions[Annotation].(map[string]any)
		if reason, ok := gone[old.OperationID].(string); ok {
			where.reason, where.annotation = reason, "the root, for "+old.OperationID
		}
		c.note(Break, where, "%s %s is gone", method, path)
		return
	}
	op := now.GetOperation(method)
	where = c.under(where, op.Extensions)
	if op.OperationID != old.OperationID {
		c.note(Break, where, "is called %q now: generated clients lose their method", op.OperationID)
	}
	c.security(where, old, op)
	c.parameters(where, slices.Concat(then.Parameters, old.Parameters), slices.Concat(now.Parameters, op.Parameters))
	c.body(where, old.RequestBody, op.RequestBody)
	c.responses(where, old.Responses, op.Responses)
}

func (c *comparison) security(where at, old, op *openapi3.Operation) {
	then, now := demands(c.before, old), demands(c.after, op)
	for _, way := range then {
		if !slices.Contains(now, way) {
			c.note(Break, where, "cannot be called %s any more", way)
		}
	}
	for _, way := range now {
		if !slices.Contains(then, way) {
			c.note(Warning, where, "can be called %s", way)
		}
	}
}

// demands returns the alternative authentication requirements of an operation, each as a phrase.
func demands(doc *openapi3.T, op *openapi3.Operation) []string {
	all := doc.Security
	if op.Security != nil {
		all = *op.Security
	}
	if len(all) == 0 {
		return []string{"without a sign-in"}
	}
	var ways []string
	for _, way := range all {
		schemes := slices.Sorted(maps.Keys(way))
		for i, scheme := range schemes {
			if scopes := way[scheme]; len(scopes) > 0 {
				schemes[i] += " (" + strings.Join(slices.Sorted(slices.Values(scopes)), " ") + ")"
			}
		}
		if len(schemes) == 0 {
			schemes = []string{"without a sign-in"}
		} else {
			schemes[0] = "by " + schemes[0]
		}
		ways = append(ways, strings.Join(schemes, " and "))
	}
	return ways
}

func (c *comparison) parameters(where at, then, now openapi3.Parameters) {
	for _, ref := range then {
		old := ref.Value
		p := now.GetByInAndName(old.In, old.Name)
		if p == nil {
			c.note(Break, where, "takes no %s parameter %q any more", old.In, old.Name)
			continue
		}
		if p.Required && !old.Required {
			c.note(Break, where, "requires the %s parameter %q", p.In, p.Name)
		}
		c.schema(where, "?"+p.Name, request, old.Schema, p.Schema)
	}
	for _, ref := range now {
		if p := ref.Value; p.Required && then.GetByInAndName(p.In, p.Name) == nil {
			c.note(Break, where, "requires the new %s parameter %q", p.In, p.Name)
		}
	}
}

func (c *comparison) body(where at, then, now *openapi3.RequestBodyRef) {
	switch {
	case then == nil && now != nil && now.Value.Required:
		c.note(Break, where, "requires a body")
	case then != nil && now == nil:
		c.note(Break, where, "takes no body any more")
	}
	if then == nil || now == nil {
		return
	}
	if now.Value.Required && !then.Value.Required {
		c.note(Break, where, "requires its body")
	}
	c.content(where, request, then.Value.Content, now.Value.Content)
}

func (c *comparison) content(where at, d direction, then, now openapi3.Content) {
	for _, media := range slices.Sorted(maps.Keys(then)) {
		if now[media] == nil {
			c.note(Break, where, "%s has no %s any more", d, media)
			continue
		}
		c.schema(where, d.String(), d, then[media].Schema, now[media].Schema)
	}
}

func (c *comparison) responses(where at, then, now *openapi3.Responses) {
	for _, status := range slices.Sorted(maps.Keys(then.Map())) {
		old, kept := then.Value(status).Value, now.Value(status)
		if kept == nil {
			c.note(level(status), where, "does not answer %s any more", status)
			continue
		}
		c.content(where, reply, old.Content, kept.Value.Content)
		for _, header := range slices.Sorted(maps.Keys(old.Headers)) {
			if kept.Value.Headers[header] == nil {
				c.note(Break, where, "%s has no header %s any more", status, header)
			} else if old.Headers[header].Value.Required && !kept.Value.Headers[header].Value.Required {
				c.note(Break, where, "%s may lack the header %s", status, header)
			}
		}
	}
	for _, status := range slices.Sorted(maps.Keys(now.Map())) {
		if then.Value(status) == nil {
			c.note(Warning, where, "may answer %s", status)
		}
	}
}

// level returns the severity of a removed response. A removed error response does not break
// clients.
func level(status string) Level {
	if status >= "400" { // "default" sorts above digits and describes errors
		return Warning
	}
	return Break
}

// unused reports annotations that excuse no change. Such an annotation would later excuse a break
// that no reviewer has approved.
func (c *comparison) unused() {
	gone, _ := c.after.Extensions[Annotation].(map[string]any)
	for id := range gone {
		c.annotated["the root, for "+id] = ""
	}
	for place := range c.annotated {
		if !c.used[place] {
			c.changes = append(c.changes, Change{Level: Warning, Place: place, What: Annotation + " excuses nothing: take it out"})
		}
	}
}
