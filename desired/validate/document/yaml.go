package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/gpuaas/gpuaas/desired"
)

// deepest is more than any kind needs. Deeper nesting is a trap for readers.
const deepest = 32

// ReadYAML reads the documents of a stream, each with the findings that prevent its validation. A syntax error ends the
// stream. It translates the nodes of the parser itself, because a decoder would already have guessed: 012 would be ten,
// an alias would be expanded, a repeated key would win or lose.
func ReadYAML(text Lines, src []byte) iter.Seq2[*Node, []desired.Finding] {
	return func(yield func(*Node, []desired.Finding) bool) {
		d := yaml.NewDecoder(bytes.NewReader(src))
		y := yamlReader{lines: text, src: src}
		for {
			var document yaml.Node
			err := d.Decode(&document)
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				at, message := y.syntax(err)
				yield(nil, []desired.Finding{at.Finding(desired.CodeYAMLSyntax, "", "", message, "")})
				return
			case len(document.Content) == 0 || document.Content[0].Tag == "!!null":
				continue // nothing between two separators
			}
			n := y.node(document.Content[0], 0)
			findings := y.findings
			y.findings = nil
			if !yield(&n, findings) {
				return
			}
		}
	}
}

type yamlReader struct {
	lines    Lines
	src      []byte
	findings []desired.Finding

	// The node before, and its offset. The parser counts characters and goes forward, so that no line
	// is walked twice.
	last   yaml.Node
	offset int
}

// node translates a node of the parser, or records why it cannot.
func (y *yamlReader) node(n *yaml.Node, depth int) Node {
	to := Node{At: y.spot(n)}
	switch {
	case depth > deepest:
		y.fault(desired.CodeTooDeep, n, "", fmt.Sprintf("is nested more than %d deep", deepest), "less nesting")
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		// A few lines of aliases can expand to gigabytes.
		y.fault(desired.CodeAliasLimit, n, "", "uses an anchor or alias", "the value written out; repetition belongs in CUE files")
	case n.Kind == yaml.MappingNode && n.ShortTag() == "!!map":
		to.Value = y.mapping(n, depth)
	case n.Kind == yaml.SequenceNode && n.ShortTag() == "!!seq":
		items := make([]Node, len(n.Content))
		for i, item := range n.Content {
			items[i] = y.node(item, depth+1)
		}
		to.Value = items
	case n.Kind == yaml.ScalarNode:
		to.Value = y.scalar(n)
	default:
		y.fault(desired.CodeYAMLTag, n, "", "has the tag "+strconv.Quote(n.Tag), "plain YAML without tags")
	}
	return to
}

// spot counts bytes where the parser counts characters.
func (y *yamlReader) spot(n *yaml.Node) Spot {
	at := Spot{int32(n.Line), int32(n.Column)} //nolint:gosec // files are far below 2 GiB
	if n.Line < 1 || n.Line > len(y.lines.starts) {
		return at
	}
	begin := y.lines.starts[n.Line-1]
	if n.Line != y.last.Line || n.Column < y.last.Column {
		y.last.Line, y.last.Column, y.offset = n.Line, 1, begin
	}
	for ; y.last.Column < n.Column; y.last.Column++ {
		_, size := utf8.DecodeRune(y.src[y.offset:])
		y.offset += size
	}
	at.Column = int32(y.offset - begin + 1) //nolint:gosec // files are far below 2 GiB
	return at
}

func (y *yamlReader) mapping(n *yaml.Node, depth int) []Member {
	members := make([]Member, 0, len(n.Content)/2)
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || key.ShortTag() != "!!str" {
			y.fault(desired.CodeWrongType, key, "", "the key "+strconv.Quote(key.Value)+" is not text", "a name, in quotes where YAML would read it as something else")
			continue
		}
		if line, again := first[key.Value]; again {
			y.fault(desired.CodeDuplicateKey, key, key.Value, fmt.Sprintf("the key occurs twice in one mapping; the first is in line %d", line), "each key once")
			continue
		}
		first[key.Value] = key.Line
		members = append(members, Member{key.Value, y.spot(key), y.node(value, depth+1)})
	}
	return members
}

// octalLike is a number that YAML 1.1 reads in base eight and people read in base ten.
var octalLike = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

func (y *yamlReader) scalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		if !utf8.ValidString(n.Value) {
			y.fault(desired.CodeNotUTF8, n, "", "is not UTF-8", "UTF-8 text")
		}
		return n.Value
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	case "!!int":
		return y.integer(n)
	case "!!float":
		return y.float(n)
	}
	y.fault(desired.CodeYAMLTag, n, "", "has the tag "+strconv.Quote(n.Tag), "plain YAML without tags")
	return nil
}

func (y *yamlReader) integer(n *yaml.Node) any {
	positive := strings.TrimLeft(strings.TrimLeft(n.Value, "+-"), "0_")
	if octalLike.MatchString(n.Value) {
		y.fault(desired.CodeAmbiguousValue, n, "", "begins with a zero: some read "+n.Value+" in base ten, some in base eight", positive+`, or "`+n.Value+`" for text`)
		return nil
	}
	v, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 64)
	if err != nil {
		y.fault(desired.CodeAmbiguousValue, n, "", n.Value+" is too large a number", "an integer of at most 64 bits")
	}
	return json.Number(strconv.FormatInt(v, 10))
}

func (y *yamlReader) float(n *yaml.Node) any {
	v, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
	if err != nil || strings.ContainsAny(n.Value, "iInN") {
		y.fault(desired.CodeAmbiguousValue, n, "", n.Value+" is no finite number", "a number")
	}
	return json.Number(strconv.FormatFloat(v, 'e', -1, 64))
}

func (y *yamlReader) fault(code string, n *yaml.Node, field, message, expected string) {
	y.findings = append(y.findings, y.spot(n).In(y.lines.Path).Finding(code, "", field, message, expected))
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// syntax returns the position of a syntax error. The parser reports only the line.
func (y *yamlReader) syntax(err error) (Place, string) {
	at := Place{y.lines.Path, 1, 1}
	m := yamlLine.FindStringSubmatch(strings.ReplaceAll(err.Error(), "\n", " "))
	if m == nil {
		return at, err.Error()
	}
	if line, err := strconv.Atoi(m[1]); err == nil {
		at.Line = line
		lines := bytes.Split(y.src, []byte("\n"))
		if line <= len(lines) {
			at.Column = 1 + len(lines[line-1]) - len(bytes.TrimLeft(lines[line-1], " "))
		}
	}
	return at, m[2]
}
