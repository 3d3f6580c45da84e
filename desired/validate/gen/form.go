package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// form is what a field may hold: one of several alternatives, and what stands
// there when the author wrote nothing.
type form struct {
	alts []alt
	def  *deflt
}

// deflt is a default: JSON, or the text that another field holds.
type deflt struct {
	json string
	path []string
}

// alt is one alternative. Its checks are Go expressions over n.
type alt struct {
	kind      kind
	literal   string // as Go: "a", 1, true
	json      string // the same as JSON
	checks    []string
	low, high *int64
	least     int      // of a list
	item      *form    // of a list; nil: anything
	texts     []string // of a list that is written out
	function  string   // of an object
	path      []string // the text that another field holds
}

type kind string

const (
	anyKind    kind = "any"
	boolKind   kind = "bool"
	intKind    kind = "int"
	numberKind kind = "number" // a bound without int
	textKind   kind = "text"
	listKind   kind = "list"
	objectKind kind = "object"
)

func single(a alt) form { return form{alts: []alt{a}} }

// or joins alternatives; a default is the one that is marked.
func (f form) or(g form) (form, error) {
	if f.def != nil && g.def != nil {
		return form{}, fmt.Errorf("two defaults")
	}
	joined := form{alts: slices.Concat(f.alts, g.alts), def: f.def}
	if g.def != nil {
		joined.def = g.def
	}
	return joined, nil
}

// and keeps what both accept.
func (f form) and(g form) (form, error) {
	var both form
	for _, a := range f.alts {
		for _, b := range g.alts {
			c, ok, err := a.and(b)
			if err != nil {
				return form{}, err
			}
			if ok {
				both.alts = append(both.alts, c)
			}
		}
	}
	switch {
	case f.def != nil && g.def != nil:
		return form{}, fmt.Errorf("two defaults meet")
	case f.def != nil && g.bare():
		both.def = f.def
	case g.def != nil && f.bare():
		both.def = g.def
	case f.def != nil || g.def != nil:
		return form{}, fmt.Errorf("a default meets a constraint")
	}
	return both, nil
}

// bare says that the form is one type without constraints, which no default of
// that type can hurt.
func (f form) bare() bool {
	return len(f.alts) == 1 && f.alts[0].plain()
}

func (a alt) plain() bool {
	return a.literal == "" && a.checks == nil && a.low == nil && a.high == nil && a.least == 0 && a.item == nil && a.texts == nil && a.function == "" && a.path == nil
}

func (a alt) and(b alt) (alt, bool, error) {
	switch {
	case a.kind == anyKind:
		return b, true, nil
	case b.kind == anyKind:
		return a, true, nil
	case a.kind == intKind && b.kind == numberKind, a.kind == numberKind && b.kind == intKind:
		a.kind, b.kind = intKind, intKind
	case a.kind != b.kind:
		return alt{}, false, nil
	}
	if a.kind == objectKind || a.texts != nil || b.texts != nil || a.path != nil || b.path != nil {
		return alt{}, false, fmt.Errorf("two values of kind %s meet", a.kind)
	}
	if a.literal != "" && b.literal != "" && a.literal != b.literal {
		return alt{}, false, nil
	}
	c := a
	if c.literal == "" {
		c.literal, c.json = b.literal, b.json
	}
	c.checks = slices.Concat(a.checks, b.checks)
	c.low, c.high = tighter(a.low, b.low, 1), tighter(a.high, b.high, -1)
	c.least = max(a.least, b.least)
	switch {
	case a.item == nil:
		c.item = b.item
	case b.item != nil:
		item, err := a.item.and(*b.item)
		if err != nil {
			return alt{}, false, err
		}
		c.item = &item
	}
	return c, true, nil
}

func tighter(a, b *int64, sign int64) *int64 {
	switch {
	case a == nil:
		return b
	case b == nil || *a*sign >= *b*sign:
		return a
	}
	return b
}

// test is a Go expression that holds for an n which a scalar alternative accepts.
func (a alt) test() (string, error) {
	var parts []string
	switch a.kind {
	case anyKind:
		return "true", nil
	case boolKind:
		if a.literal != "" {
			return "n.kind == kind" + capital(a.literal), nil
		}
		return "n.isBool()", nil
	case intKind:
		parts = append(parts, "n.kind == kindInt")
		if (a.low == nil) != (a.high == nil) {
			return "", fmt.Errorf("an integer with one bound") // a number beyond 64 bits could satisfy it
		}
		if a.low != nil {
			parts = append(parts, fmt.Sprintf("n.within(%d, %d)", *a.low, *a.high))
		}
		if a.literal != "" {
			parts = append(parts, fmt.Sprintf("n.text == %q", a.literal))
		}
	case textKind:
		parts = append(parts, "n.kind == kindText")
		if a.literal != "" {
			parts = append(parts, "n.text == "+a.literal)
		}
		if a.path != nil {
			parts = append(parts, fmt.Sprintf("d.holds(n.text%s)", arguments(a.path)))
		}
	case numberKind:
		return "", fmt.Errorf("a bound without int")
	case listKind, objectKind:
		return "", fmt.Errorf("%s among scalars", a.kind)
	}
	parts = append(parts, a.checks...)
	return strings.Join(parts, " && "), nil
}

func arguments(path []string) string {
	var text strings.Builder
	for _, p := range path {
		text.WriteString(", " + strconv.Quote(p))
	}
	return text.String()
}
