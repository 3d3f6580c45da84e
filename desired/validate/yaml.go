package validate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"cuelang.org/go/cue/token"
	"gopkg.in/yaml.v3"

	"github.com/gpuaas/gpuaas/desired"
)

// deepest is more than any kind needs. Deeper nesting is a trap for readers.
const deepest = 32

// yamlFile reads the documents of a stream. It translates the nodes itself,
// because a decoder would already have guessed: 012 would be ten, an alias
// would be expanded, a repeated key would win or lose.
func yamlFile(c *Checker, name string, src []byte) part {
	p := part{}
	y := yamlReader{file: token.NewFile(name, -1, len(src)+1), src: src, name: name}
	y.file.SetLinesForContent(src)
	y.lines = y.file.Lines()

	d := yaml.NewDecoder(bytes.NewReader(src))
	for len(p.findings) < mostFindings {
		var document yaml.Node
		err := d.Decode(&document)
		if errors.Is(err, io.EOF) {
			return p
		}
		if err != nil {
			at, message := y.syntax(err)
			return p.failAt(desired.CodeYAMLSyntax, at, "", message, "")
		}
		if len(document.Content) == 0 || document.Content[0].Tag == "!!null" {
			continue // nothing between two separators
		}
		first := document.Content[0]
		n := y.node(first, 0)
		if len(y.faults) > 0 {
			for _, f := range y.faults {
				p.failAt(f.code, f.at, f.field, f.message, f.expected)
			}
			y.faults = nil
			continue
		}
		o, ok := c.quickly(&n, y.place(first), y.located)
		if f := n.unfit(y.place(first)); !ok && f != nil {
			p.fail([]desired.Finding{*f})
			continue
		}
		if !ok {
			o = c.data(y.expr(&n), y.place(first))
		}
		p.keep(o)
	}
	return p
}

type yamlReader struct {
	file   *token.File
	lines  []int // offset of each line; the file would copy them at each call
	src    []byte
	name   string
	faults []yamlFault
}

type yamlFault struct {
	at                             place
	code, field, message, expected string
}

// node translates a node of the parser, or records why it cannot.
func (y *yamlReader) node(n *yaml.Node, depth int) node {
	to := node{at: spotOf(n)}
	switch {
	case depth > deepest:
		y.fault(desired.CodeTooDeep, n, "", fmt.Sprintf("is nested more than %d deep", deepest), "less nesting")
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		// A few lines of aliases can stand for gigabytes.
		y.fault(desired.CodeAliasLimit, n, "", "uses an anchor or alias", "the value written out; repetition belongs in CUE files")
	case n.Kind == yaml.MappingNode && n.ShortTag() == "!!map":
		y.mapping(&to, n, depth)
	case n.Kind == yaml.SequenceNode && n.ShortTag() == "!!seq":
		to.kind = kindList
		to.items = make([]node, len(n.Content))
		for i, item := range n.Content {
			to.items[i] = y.node(item, depth+1)
		}
	case n.Kind == yaml.ScalarNode:
		y.scalar(&to, n)
	default:
		y.fault(desired.CodeYAMLTag, n, "", "has the tag "+strconv.Quote(n.Tag), "plain YAML without tags")
	}
	return to
}

func spotOf(n *yaml.Node) spot { return spot{int32(n.Line), int32(n.Column)} } //nolint:gosec // files are far below 2 GiB

func (y *yamlReader) mapping(to *node, n *yaml.Node, depth int) {
	to.kind = kindObject
	to.members = make([]member, 0, len(n.Content)/2)
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || key.ShortTag() != "!!str" {
			y.fault(desired.CodeWrongType, key, "", "the key "+strconv.Quote(key.Value)+" is not text", "a name, in quotes where YAML would read it as something else")
			continue
		}
		if line, again := first[key.Value]; again {
			y.fault(desired.CodeDuplicateKey, key, key.Value, fmt.Sprintf("the key stands twice in one mapping; the first is in line %d", line), "each key once")
			continue
		}
		first[key.Value] = key.Line
		to.members = append(to.members, member{key.Value, spotOf(key), y.node(value, depth+1)})
	}
}

// octalLike is a number that YAML 1.1 reads in base eight and people read in base ten.
var octalLike = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

func (y *yamlReader) scalar(to *node, n *yaml.Node) {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		if !utf8.ValidString(n.Value) {
			y.fault(desired.CodeNotUTF8, n, "", "is not UTF-8", "UTF-8 text")
		}
		to.kind, to.text = kindText, n.Value
	case "!!null":
		to.kind = kindNull
	case "!!bool":
		to.kind = kindFalse
		if strings.EqualFold(n.Value, "true") {
			to.kind = kindTrue
		}
	case "!!int":
		y.integer(to, n)
	case "!!float":
		y.float(to, n)
	default:
		y.fault(desired.CodeYAMLTag, n, "", "has the tag "+strconv.Quote(n.Tag), "plain YAML without tags")
	}
}

func (y *yamlReader) integer(to *node, n *yaml.Node) {
	plain := strings.TrimLeft(strings.TrimLeft(n.Value, "+-"), "0_")
	if octalLike.MatchString(n.Value) {
		y.fault(desired.CodeAmbiguousValue, n, "", "begins with a zero: some read "+n.Value+" in base ten, some in base eight", plain+`, or "`+n.Value+`" for text`)
		return
	}
	v, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 64)
	if err != nil {
		y.fault(desired.CodeAmbiguousValue, n, "", n.Value+" is too large a number", "an integer of at most 64 bits")
		return
	}
	to.kind, to.text = kindInt, strconv.FormatInt(v, 10)
}

func (y *yamlReader) float(to *node, n *yaml.Node) {
	v, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
	if err != nil || strings.ContainsAny(n.Value, "iInN") {
		y.fault(desired.CodeAmbiguousValue, n, "", n.Value+" is no finite number", "a number")
		return
	}
	to.kind, to.text = kindFloat, strconv.FormatFloat(v, 'e', -1, 64)
}

func (y *yamlReader) fault(code string, n *yaml.Node, field, message, expected string) {
	y.faults = append(y.faults, yamlFault{y.place(n), code, field, message, expected})
}

func (y *yamlReader) place(n *yaml.Node) place { return place{y.name, n.Line, n.Column} }

// located is where CUE would say that something stands: it counts bytes, and
// the parser characters.
func (y *yamlReader) located(at spot) place {
	to := place{y.name, int(at.a), int(at.b)}
	if offset, ok := y.offset(at); ok {
		to.column = offset - y.lines[at.a-1] + 1
	}
	return to
}

func (y *yamlReader) offset(at spot) (int, bool) {
	if at.a < 1 || int(at.a) > len(y.lines) {
		return 0, false
	}
	offset := y.lines[at.a-1]
	for range at.b - 1 {
		_, size := utf8.DecodeRune(y.src[min(offset, len(y.src)):])
		offset += size
	}
	return min(offset, len(y.src)), true
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// syntax finds the place of a syntax error, of which the parser tells only a line.
func (y *yamlReader) syntax(err error) (place, string) {
	at := place{y.name, 1, 1}
	m := yamlLine.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	if m == nil {
		return at, err.Error()
	}
	if line, err := strconv.Atoi(m[1]); err == nil {
		at.line = line
		lines := bytes.Split(y.src, []byte("\n"))
		if line <= len(lines) {
			at.column = 1 + len(lines[line-1]) - len(bytes.TrimLeft(lines[line-1], " "))
		}
	}
	return at, m[2]
}
