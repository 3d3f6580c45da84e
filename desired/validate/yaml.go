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

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/literal"
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
		node := document.Content[0]
		expr := y.expr(node, 0)
		if len(y.faults) > 0 {
			for _, f := range y.faults {
				p.failAt(f.code, f.at, f.field, f.message, f.expected)
			}
			y.faults = nil
			continue
		}
		p.keep(c.data(expr, y.place(node)))
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

// expr translates a node, or records why it cannot.
func (y *yamlReader) expr(n *yaml.Node, depth int) ast.Expr {
	switch {
	case depth > deepest:
		y.fault(desired.CodeTooDeep, n, "", fmt.Sprintf("is nested more than %d deep", deepest), "less nesting")
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		// A few lines of aliases can stand for gigabytes.
		y.fault(desired.CodeAliasLimit, n, "", "uses an anchor or alias", "the value written out; repetition belongs in CUE files")
	case n.Kind == yaml.MappingNode && shortTag(n, "!!map"):
		return y.mapping(n, depth)
	case n.Kind == yaml.SequenceNode && shortTag(n, "!!seq"):
		list := &ast.ListLit{Lbrack: y.pos(n)}
		for _, item := range n.Content {
			list.Elts = append(list.Elts, y.expr(item, depth+1))
		}
		return list
	case n.Kind == yaml.ScalarNode:
		return y.scalar(n)
	default:
		y.fault(desired.CodeYAMLTag, n, "", "has the tag "+strconv.Quote(n.Tag), "plain YAML without tags")
	}
	return ast.NewNull()
}

func shortTag(n *yaml.Node, want string) bool { return n.ShortTag() == want }

func (y *yamlReader) mapping(n *yaml.Node, depth int) ast.Expr {
	s := &ast.StructLit{Lbrace: y.pos(n)}
	first := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || key.Anchor != "" || key.ShortTag() != "!!str" {
			y.fault(desired.CodeWrongType, key, "", "the key "+strconv.Quote(key.Value)+" is not text", "a name, in quotes where YAML would read it as something else")
			continue
		}
		if before := first[key.Value]; before != nil {
			y.fault(desired.CodeDuplicateKey, key, key.Value, fmt.Sprintf("the key stands twice in one mapping; the first is in line %d", before.Line), "each key once")
			continue
		}
		first[key.Value] = key
		s.Elts = append(s.Elts, &ast.Field{
			Label: &ast.BasicLit{ValuePos: y.pos(key), Kind: token.STRING, Value: literal.String.Quote(key.Value)},
			Value: y.expr(value, depth+1),
		})
	}
	return s
}

// octalLike is a number that YAML 1.1 reads in base eight and people read in base ten.
var octalLike = regexp.MustCompile(`^[-+]?0[0-9_]+$`)

func (y *yamlReader) scalar(n *yaml.Node) ast.Expr {
	lit := func(kind token.Token, text string) ast.Expr {
		return &ast.BasicLit{ValuePos: y.pos(n), Kind: kind, Value: text}
	}
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		if !utf8.ValidString(n.Value) {
			y.fault(desired.CodeNotUTF8, n, "", "is not UTF-8", "UTF-8 text")
		}
		return lit(token.STRING, literal.String.Quote(n.Value))
	case "!!null":
		return lit(token.NULL, "null")
	case "!!bool":
		return y.boolean(n, lit)
	case "!!int":
		return y.integer(n, lit)
	case "!!float":
		return y.float(n, lit)
	default:
		y.fault(desired.CodeYAMLTag, n, "", "has the tag "+strconv.Quote(n.Tag), "plain YAML without tags")
		return lit(token.NULL, "null")
	}
}

func (y *yamlReader) boolean(n *yaml.Node, lit func(token.Token, string) ast.Expr) ast.Expr {
	if strings.EqualFold(n.Value, "true") {
		return lit(token.TRUE, "true")
	}
	return lit(token.FALSE, "false")
}

func (y *yamlReader) integer(n *yaml.Node, lit func(token.Token, string) ast.Expr) ast.Expr {
	plain := strings.TrimLeft(strings.TrimLeft(n.Value, "+-"), "0_")
	if octalLike.MatchString(n.Value) {
		y.fault(desired.CodeAmbiguousValue, n, "", "begins with a zero: some read "+n.Value+" in base ten, some in base eight", plain+`, or "`+n.Value+`" for text`)
		return ast.NewNull()
	}
	v, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 64)
	if err != nil {
		y.fault(desired.CodeAmbiguousValue, n, "", n.Value+" is too large a number", "an integer of at most 64 bits")
		return ast.NewNull()
	}
	if v < 0 {
		// CUE has no negative literals, only the operator.
		return &ast.UnaryExpr{OpPos: y.pos(n), Op: token.SUB, X: lit(token.INT, strings.TrimPrefix(strconv.FormatInt(v, 10), "-"))}
	}
	return lit(token.INT, strconv.FormatInt(v, 10))
}

func (y *yamlReader) float(n *yaml.Node, lit func(token.Token, string) ast.Expr) ast.Expr {
	v, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
	if err != nil || strings.ContainsAny(n.Value, "iInN") {
		y.fault(desired.CodeAmbiguousValue, n, "", n.Value+" is no finite number", "a number")
		return ast.NewNull()
	}
	text := strconv.FormatFloat(v, 'e', -1, 64)
	if v < 0 {
		return &ast.UnaryExpr{OpPos: y.pos(n), Op: token.SUB, X: lit(token.FLOAT, strings.TrimPrefix(text, "-"))}
	}
	return lit(token.FLOAT, text)
}

func (y *yamlReader) fault(code string, n *yaml.Node, field, message, expected string) {
	y.faults = append(y.faults, yamlFault{y.place(n), code, field, message, expected})
}

func (y *yamlReader) place(n *yaml.Node) place { return place{y.name, n.Line, n.Column} }

// pos turns a node's line and column into CUE's kind of position.
func (y *yamlReader) pos(n *yaml.Node) token.Pos {
	if n.Line < 1 || n.Line > len(y.lines) {
		return token.NoPos
	}
	offset := y.lines[n.Line-1]
	for range n.Column - 1 { // columns count characters, offsets bytes
		_, size := utf8.DecodeRune(y.src[min(offset, len(y.src)):])
		offset += size
	}
	return y.file.Pos(min(offset, len(y.src)), token.NoRelPos)
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
