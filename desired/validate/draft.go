package validate

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/gpuaas/gpuaas/desired"
)

// draft is one document on its way through a generated validator, which writes
// the normalised form as it goes. A validator that refuses says nothing more:
// CUE is asked for the place and the words.
type draft struct {
	root *node
	out  []byte
	spec int // where the spec begins in out
}

// accepted is a document that a generated validator has let through.
type accepted struct {
	kind desired.Kind
	root *node
	spec []byte
	out  []byte // the array that spec is in
}

// quick asks the validator of the document's kind. It answers false for whatever
// the definition refuses.
func quick(n *node, scratch []byte) (accepted, bool) {
	kind := n.get("kind")
	if kind == nil || kind.kind != kindText {
		return accepted{}, false
	}
	check, ok := validators[desired.Kind(kind.text)]
	if !ok {
		return accepted{}, false
	}
	d := draft{root: n, out: scratch[:0]}
	if !check(&d, n) {
		return accepted{}, false
	}
	// Without the brace that ends the document: spec is its last field.
	return accepted{desired.Kind(kind.text), n, d.out[d.spec : len(d.out)-1], d.out}, true
}

func (d *draft) raw(text string)  { d.out = append(d.out, text...) }
func (d *draft) put(n *node)      { d.out = n.write(d.out) }
func (d *draft) text(text string) { d.out = quote(d.out, text) }

// comma separates the fields that are there.
func (d *draft) comma(first *bool) {
	if !*first {
		d.out = append(d.out, ',')
	}
	*first = false
}

// list checks each item and writes it.
func (d *draft) list(n *node, least int, item func(*draft, *node) bool) bool {
	if n.kind != kindList || len(n.items) < least {
		return false
	}
	d.raw("[")
	for i := range n.items {
		if i > 0 {
			d.raw(",")
		}
		if !item(d, &n.items[i]) {
			return false
		}
	}
	d.raw("]")
	return true
}

// free checks an object whose names are the author's, and writes it.
func (d *draft) free(n *node, name func(string) bool, value func(*draft, *node) bool) bool {
	if n.kind != kindObject {
		return false
	}
	d.raw("{")
	for i, m := range sorted(n.members) {
		if !name(m.name) {
			return false
		}
		if i > 0 {
			d.raw(",")
		}
		d.text(m.name)
		d.raw(":")
		if !value(d, &m.value) {
			return false
		}
	}
	d.raw("}")
	return true
}

// textAt reads a text that the document holds; the validator has seen it.
func (d *draft) textAt(path ...string) (string, bool) {
	n := d.root.path(path...)
	if n == nil || n.kind != kindText {
		return "", false
	}
	return n.text, true
}

// within says whether an integer is between two bounds.
func (n *node) within(low, high int64) bool {
	v, err := strconv.ParseInt(n.text, 10, 64)
	return err == nil && v >= low && v <= high
}

func (n *node) isBool() bool { return n.kind == kindTrue || n.kind == kindFalse }

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339Nano, text)
	return err == nil
}

func maxRunes(text string, most int) bool { return utf8.RuneCountInString(text) <= most }

// holds says whether text is what another field holds.
func (d *draft) holds(text string, path ...string) bool {
	other, ok := d.textAt(path...)
	return ok && other == text
}

// isTexts says whether n is this list.
func (n *node) isTexts(texts ...string) bool {
	if n.kind != kindList || len(n.items) != len(texts) {
		return false
	}
	for i := range texts {
		if n.items[i].kind != kindText || n.items[i].text != texts[i] {
			return false
		}
	}
	return true
}
