package validate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/gpuaas/gpuaas/desired"
)

// node is one value of a document, as YAML and JSON have it in common. It is what
// the generated validators read.
type node struct {
	kind    nodeKind
	text    string   // a text, or the literal of a number
	members []member // of an object
	items   []node   // of a list
	at      spot
}

// spot is where something stands: an offset in JSON, line and column in YAML.
type spot struct{ a, b int32 }

type member struct {
	name  string
	at    spot // of the name
	value node
}

type nodeKind uint8

const (
	kindNull nodeKind = iota
	kindTrue
	kindFalse
	kindInt
	kindFloat
	kindText
	kindList
	kindObject
)

// get finds a member; nil when there is none, or n is no object.
func (n *node) get(name string) *node {
	if n == nil {
		return nil
	}
	if m := n.named(name); m != nil {
		return &m.value
	}
	return nil
}

func (n *node) named(name string) *member {
	for i := range n.members {
		if n.members[i].name == name {
			return &n.members[i]
		}
	}
	return nil
}

// path follows names down from n.
func (n *node) path(names ...string) *node {
	for _, name := range names {
		n = n.get(name)
	}
	return n
}

// mostValues of one document are far more than any kind has. Explaining a refusal
// takes CUE time by the square of them.
const mostValues = 5000

// unfit says what need not be asked of CUE: a document that is no object, or that
// is one of very many fields.
func (n *node) unfit(at place) *desired.Finding {
	var f desired.Finding
	switch {
	case n.kind != kindObject:
		f = at.finding(desired.CodeNotAnObject, "", "", "is "+n.shown()+", not an object", "a document with apiVersion, kind, metadata and spec")
	case n.values(mostValues) > mostValues:
		f = at.finding(desired.CodeEvaluationLimit, "", "", fmt.Sprintf("has more than %d values", mostValues), "objects as the kinds describe them")
	default:
		return nil
	}
	return &f
}

// values counts them, up to a limit.
func (n *node) values(most int) int {
	count := 1
	for i := 0; i < len(n.members) && count <= most; i++ {
		count += n.members[i].value.values(most - count)
	}
	for i := 0; i < len(n.items) && count <= most; i++ {
		count += n.items[i].values(most - count)
	}
	return count
}

// shown is the value, as findings speak of it.
func (n *node) shown() string {
	switch n.kind {
	case kindNull:
		return "empty"
	case kindTrue:
		return "true"
	case kindFalse:
		return "false"
	case kindInt, kindFloat:
		return n.text
	case kindText:
		return shownText(n.text)
	case kindList:
		if len(n.items) == 0 {
			return "an empty list"
		}
		return "a list"
	case kindObject:
	}
	return "an object"
}

// texts reads an object of texts, such as labels; nil when there is none.
func (n *node) texts() map[string]string {
	if n == nil {
		return nil
	}
	m := make(map[string]string, len(n.members))
	for i := range n.members {
		m[n.members[i].name] = n.members[i].value.text
	}
	return m
}

// write appends the value as canonical does: keys sorted, nothing escaped that
// need not be.
func (n *node) write(out []byte) []byte {
	switch n.kind {
	case kindNull:
		return append(out, "null"...)
	case kindTrue:
		return append(out, "true"...)
	case kindFalse:
		return append(out, "false"...)
	case kindInt, kindFloat:
		return append(out, n.text...)
	case kindText:
		return quote(out, n.text)
	case kindList:
		out = append(out, '[')
		for i := range n.items {
			if i > 0 {
				out = append(out, ',')
			}
			out = n.items[i].write(out)
		}
		return append(out, ']')
	case kindObject:
		out = append(out, '{')
		for i, m := range sorted(n.members) {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(quote(out, m.name), ':')
			out = m.value.write(out)
		}
		return append(out, '}')
	}
	return out
}

// sorted leaves the document's own order alone: places are found by it.
func sorted(members []member) []member {
	byName := func(a, b member) int { return bytes.Compare([]byte(a.name), []byte(b.name)) }
	if slices.IsSortedFunc(members, byName) {
		return members
	}
	members = slices.Clone(members)
	slices.SortFunc(members, byName)
	return members
}

// quote appends a text as JSON. What the encoder would escape, the encoder writes.
func quote(out []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			return encoded(out, text)
		}
	}
	out = append(out, '"')
	out = append(out, text...)
	return append(out, '"')
}

func encoded(out []byte, text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) //nolint:errchkjson // a text into memory
	return append(out, bytes.TrimRight(b.Bytes(), "\n")...)
}
