package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"cuelang.org/go/cue/ast"

	"github.com/gpuaas/gpuaas/desired"
)

// mostDigits is more than any number needs. CUE reads a number in time by the square of its digits.
const mostDigits = 400

// ReadJSON reads one document that must fill all of src.
func ReadJSON(text Lines, src []byte) (Node, []desired.Finding) {
	d := json.NewDecoder(bytes.NewReader(src))
	d.UseNumber()
	r := &jsonReader{d: d, src: src, lines: text}
	root, err := r.value(0)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return root, r.findings
		}
	}
	if errors.Is(err, errRejected) {
		return root, r.findings
	}
	// Unmarshal has the clearer message. Its offset is behind the unexpected character.
	offset := int(d.InputOffset())
	if whole := json.Unmarshal(src, new(json.RawMessage)); whole != nil {
		err = whole
	}
	if syntax := new(json.SyntaxError); errors.As(err, &syntax) {
		offset = int(syntax.Offset) - 1
	}
	at := text.Place(max(0, min(offset, len(src))))
	return root, []desired.Finding{at.Finding(desired.CodeJSONSyntax, "", "", err.Error(), "JSON")}
}

// errRejected ends the reading of a document. The finding is there already.
var errRejected = errors.New("rejected")

// jsonReader adds positions to the tokens of encoding/json. It rejects input that JSON parsers read
// differently: duplicate keys, unpaired surrogates, very long numbers.
type jsonReader struct {
	d        *json.Decoder
	src      []byte
	lines    Lines
	findings []desired.Finding
}

// token returns the next token and the offsets around it.
func (r *jsonReader) token() (t json.Token, from, to int, err error) {
	before := r.d.InputOffset()
	t, err = r.d.Token()
	to = int(r.d.InputOffset())
	return t, to - len(bytes.TrimLeft(r.src[before:to], " \t\r\n,:")), to, err
}

func (r *jsonReader) reject(offset int, code, message, expected string) error {
	r.findings = []desired.Finding{r.lines.Place(offset).Finding(code, "", "", message, expected)}
	return errRejected
}

func (r *jsonReader) value(depth int) (Node, error) {
	t, from, to, err := r.token()
	if err != nil {
		return Node{}, err
	}
	n := Node{At: r.lines.spot(from), Value: t}
	switch t := t.(type) {
	case json.Delim:
		if depth == deepest {
			return n, r.reject(from, desired.CodeTooDeep, fmt.Sprintf("is nested more than %d deep", deepest), "less nesting")
		}
		if t == '{' {
			n.Value, err = r.object(depth + 1)
		} else {
			n.Value, err = r.list(depth + 1)
		}
	case json.Number:
		if len(t) > mostDigits {
			return n, r.reject(from, desired.CodeAmbiguousValue, fmt.Sprintf("is a number of more than %d digits", mostDigits), "a number that readers can represent")
		}
		if t == "-0" {
			n.Value = json.Number("0")
		}
	case string:
		err = r.whole(t, from, to)
	}
	return n, err
}

func (r *jsonReader) list(depth int) ([]Node, error) {
	items := []Node{}
	for r.d.More() {
		item, err := r.value(depth)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	_, _, _, err := r.token()
	return items, err
}

func (r *jsonReader) object(depth int) ([]Member, error) {
	members, seen := []Member{}, map[string]bool{}
	for r.d.More() {
		key, from, to, err := r.token()
		if err != nil {
			return nil, err
		}
		m := Member{At: r.lines.spot(from)}
		m.Name, _ = key.(string) // the decoder returns no other key
		if err := r.whole(m.Name, from, to); err != nil {
			return nil, err
		}
		if !ast.StringLabelNeedsQuoting(m.Name) {
			m.At.Column++ // behind the quote, where CUE places the name of a JSON file
		}
		if m.Value, err = r.value(depth); err != nil {
			return nil, err
		}
		if seen[m.Name] {
			r.findings = append(r.findings, m.At.In(r.lines.Path).Finding(desired.CodeDuplicateKey, "", m.Name, "the key occurs twice in one object", "each key once"))
			continue
		}
		seen[m.Name] = true
		members = append(members, m)
	}
	_, _, _, err := r.token()
	return members, err
}

// escape matches an escaped character. A pair of surrogates is one character.
var escape = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|.)`)

// whole rejects half of a pair of surrogates, which the decoder replaces without an error.
func (r *jsonReader) whole(text string, from, to int) error {
	if !strings.ContainsRune(text, utf8.RuneError) {
		return nil
	}
	for _, e := range escape.FindAll(r.src[from:to], -1) {
		if len(e) < len(`\u0000`) {
			continue
		}
		high, _ := strconv.ParseInt(string(e[2:6]), 16, 32) // the pattern has four digits
		if first := rune(high); len(e) > len(`\u0000`) && utf16.IsSurrogate(first) {
			low, _ := strconv.ParseInt(string(e[8:]), 16, 32)
			if utf16.DecodeRune(first, rune(low)) != utf8.RuneError {
				continue
			}
		} else if len(e) == len(`\u0000`) && !utf16.IsSurrogate(first) {
			continue
		}
		return r.reject(from, desired.CodeNotUTF8, "has half of a pair of surrogates", "whole characters")
	}
	return nil
}
